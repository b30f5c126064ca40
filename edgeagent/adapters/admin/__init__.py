"""The operator's door: HTTP over a Unix socket, for programs on this machine."""
