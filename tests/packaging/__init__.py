"""The Debian package: what is in it, and what becomes of a machine that it is installed on."""
