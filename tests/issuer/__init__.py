"""The issuing side: kit, queue server, interface."""
