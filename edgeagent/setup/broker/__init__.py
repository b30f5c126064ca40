"""The hub's broker: looked at as a guest, or given its configuration."""
