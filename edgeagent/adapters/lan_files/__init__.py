"""Files for devices on the LAN."""
