"""What a hostile television is out for."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address

from firmware_sim.fields import Fields, InputError


class Deed(StrEnum):
    """What it does, one after another, one each period; its buttons are these in this order."""

    SPOOF = "spoof"
    """Speaks as others do: they are gone, their updates went well, they run version 99."""
    FLOOD = "flood"
    """Sends many messages at once: on its own topic and on others', small, large, deep, no text at all."""
    PLANT = "plant"
    """Leaves retained commands for others, updates from its own address among them."""
    REPLAY = "replay"
    """Says again what it has heard, byte for byte."""
    ANSWER = "answer"
    """Answers what others were asked, with the ids that it has overheard."""
    WANDER = "wander"
    """Asks the file servers it has heard of for other paths, with other methods."""
    CROWD = "crowd"
    """Opens many connections to a file server, and says half a request on each."""
    DAWDLE = "dawdle"
    """Reads from a file server as slowly as it can."""
    RANGES = "ranges"
    """Asks a file server for a thousand ranges at once, and for impossible ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelevisionSettings:
    """What it is out for.

    Attributes:
        deeds: what it does; empty for all.
        idle: whether it does nothing by itself, only when a button is pressed.
        topic: its own topic.
        many: how many messages a flood has, and how many connections a crowd.
        evil: the address of images that it wants others to install.
        address: its own address, where it has several to come from; empty for whichever the system takes.
    """

    deeds: tuple[Deed, ...] = ()
    idle: bool = False
    topic: str = "television"
    many: int = 50
    evil: str = "http://192.0.2.66/evil.bin"
    address: str = ""


def television_settings(fields: Fields) -> TelevisionSettings:
    """Read settings; ``deeds`` is an object such as ``{"spoof": true}``.

    Raises:
        InputError: names the field.
    """
    boring = TelevisionSettings()
    chosen = fields.nested("deeds")
    deeds = tuple(deed for deed in Deed if chosen.flag(deed.value, default=False))
    chosen.done()
    settings = TelevisionSettings(
        deeds=deeds,
        idle=fields.flag("idle", default=False),
        topic=fields.text("topic", boring.topic),
        many=fields.whole("many", boring.many, least=1),
        evil=fields.text("evil", boring.evil),
        address=fields.text("address", boring.address),
    )
    fields.done()
    try:
        ip_address(settings.address or "::")
    except ValueError as why:
        raise InputError(f"{fields.where}.address: {settings.address!r:.60} is no address") from why
    if not settings.topic or set(settings.topic) & set("+#\0"):
        raise InputError(f"{fields.where}.topic: {settings.topic!r:.60} is no topic")
    return settings
