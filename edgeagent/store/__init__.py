"""All SQL and state files of the hub."""
