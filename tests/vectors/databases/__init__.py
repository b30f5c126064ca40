"""A database of every released schema, as a real agent has left it."""
