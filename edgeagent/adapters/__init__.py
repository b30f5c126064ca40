"""One file or room for each thing outside; flows do not know them, and they do not know each other."""
