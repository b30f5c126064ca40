"""Units and whole machines, as they run under a real systemd."""
