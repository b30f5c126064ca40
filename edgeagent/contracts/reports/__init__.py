"""What the agent tells its operator: the answers of the admin socket, and what ``--json`` prints."""
