"""What root does once, and again when something has changed: setting a hub up."""
