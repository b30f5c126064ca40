"""The cloud's queue over HTTPS: the shapes on the wire, and the hub's end of it."""
