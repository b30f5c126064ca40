"""The simulated appliances, as an outsider meets them: over a real broker, with a plain MQTT client."""
