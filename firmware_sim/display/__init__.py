"""A display of no particular make: a state, a URL to update from, and progress."""
