"""The hub's broker: two persistent MQTT 5 sessions over paho-mqtt, driven by the asyncio loop."""
