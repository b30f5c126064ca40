"""The device profiles that edgeagent ships: data, and where to find it."""
