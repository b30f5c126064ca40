"""The machine: what the kernel tells of it, in folders that a test fills."""
