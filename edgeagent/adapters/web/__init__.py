"""What the agent shows to programs on this machine over HTTP."""
