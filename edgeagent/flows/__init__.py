"""The directions in which things move; one file each."""
