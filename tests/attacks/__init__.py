"""What somebody tries who owns the network, the queue, a device or a key: refused, and nothing changes."""
