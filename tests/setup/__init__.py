"""Setting a hub up."""
