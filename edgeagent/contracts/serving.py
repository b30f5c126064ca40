"""How it went when somebody fetched a file from the hub: words of audit rows and metrics."""

from enum import StrEnum


class Ended(StrEnum):
    """How a fetch ended."""

    SENT = "sent"
    """All that was asked for was sent."""
    LEFT = "left"
    """The device has closed the connection before."""
    SLOW = "slow"
    """The device took too little for too long, and was cut off."""
    OVER = "over"
    """The offer ended meanwhile, or the agent stopped."""
    BROKEN = "broken"
    """The file could not be read any more as it was verified."""


class Turned(StrEnum):
    """Why somebody was turned away. Told to nobody who asks."""

    CROWDED = "crowded"
    """Too many connections at once."""
    SILENT = "silent"
    """No whole request in time."""
    NO_REQUEST = "no_request"
    """Not HTTP, or more of it than anybody needs."""
    OTHER_HOST = "other_host"
    """Asked for as another host, or as none: a page of another site (DNS rebinding)."""
    OTHER_METHOD = "other_method"
    """Neither GET nor HEAD, or with a body."""
    NO_SUCH_PATH = "no_such_path"
    """Nothing is offered there, or not any more."""
    OTHER_ADDRESS = "other_address"
    """Offered to a device with another address."""
    SPENT = "spent"
    """Fetched often enough, or by too many at once."""
    NO_SUCH_RANGE = "no_such_range"
    """The file has no such bytes, or more than one range was wanted."""
