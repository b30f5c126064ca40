"""What ends a venue before its verdict."""


class VenueError(Exception):
    """A party cannot be put up or has gone; the message says which, and what it last said."""
