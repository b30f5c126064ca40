"""Shelly of the second generation and later: JSON-RPC over MQTT."""
