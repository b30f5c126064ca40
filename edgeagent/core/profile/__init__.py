"""Device profiles at work: read the file, compile it for a device, decode, plan, recognise."""
