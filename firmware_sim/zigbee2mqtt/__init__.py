"""Zigbee2MQTT: a bridge, and the devices behind it, which have no address of their own on the network."""
