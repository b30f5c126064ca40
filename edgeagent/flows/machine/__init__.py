"""How the machine itself stands: what the kernel tells of disk, memory and heat, and what to do about it."""
