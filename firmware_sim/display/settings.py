"""How a display is set up."""

import re
from dataclasses import dataclass
from typing import Final

from firmware_sim.fields import Fields, InputError

_VERSION: Final = re.compile(r"[0-9A-Za-z.+-]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplaySettings:
    """The owner's choices.

    Attributes:
        topic: None for ``display/<id>``.
        version: of the firmware of delivery.
        hardware: the hardware revision.
    """

    topic: str | None = None
    version: str = "1.0.0"
    hardware: str = "1"


def display_settings(fields: Fields) -> DisplaySettings:
    """Read settings.

    Raises:
        InputError: names the field.
    """
    settings = DisplaySettings(
        topic=fields.text("topic") if fields.has("topic") else None,
        version=fields.text("version", "1.0.0"),
        hardware=fields.text("hardware", "1"),
    )
    fields.done()
    if settings.topic is not None and (not settings.topic or set(settings.topic) & set("+#\0")):
        raise InputError(f"{fields.where}.topic: {settings.topic!r:.60} is no topic")
    if _VERSION.fullmatch(settings.version) is None:
        raise InputError(f"{fields.where}.version: {settings.version!r:.60} is no version")
    return settings
