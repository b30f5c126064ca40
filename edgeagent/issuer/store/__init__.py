"""The queue server's tables."""
