"""The hub's broker: as a guest, and as its own."""
