"""edgeagent: the agent on a venue's hub, between MQTT appliances and a cloud queue."""
