"""What somebody tries who owns the network, the queue, a device or a key; against the running agent."""
