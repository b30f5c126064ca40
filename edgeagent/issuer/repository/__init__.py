"""The policy's repository: The Update Framework's metadata around one file."""
