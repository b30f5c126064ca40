"""How a Shelly is set up by its owner, and what it is by birth."""

from dataclasses import dataclass
from typing import Final

from firmware_sim.fields import Fields, InputError

_LONGEST_PREFIX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellySettings:
    """How the owner has set the device up; the defaults are those of delivery.

    Attributes:
        name: the owner's name for it.
        topic_prefix: None for the device id.
        rpc_ntf: whether notifications are published.
        status_ntf: whether statuses are published.
        enable_rpc: whether requests are taken.
        enable_control: whether words are taken on ``command``.
        online_retained: whether ``online`` is retained, in the will too.
        auth: whether a password is asked for: every method but ``Shelly.GetDeviceInfo`` is answered with a
            challenge that nobody can meet (that MQTT asks for it is *assumed*).
        calibrated: whether a cover knows its positions.
        version: of the firmware of delivery.
        hardware: the hardware revision.
        stable: where its maker's stable firmware lies; empty when the maker cannot be reached.
        beta: where the beta lies.
        address: what it tells as its address; empty for its own.
    """

    name: str = ""
    topic_prefix: str | None = None
    rpc_ntf: bool = True
    status_ntf: bool = False
    enable_rpc: bool = True
    enable_control: bool = True
    online_retained: bool = False
    auth: bool = False
    calibrated: bool = True
    version: str = "1.7.1"
    hardware: str = "1"
    stable: str = ""
    beta: str = ""
    address: str = ""


def shelly_settings(fields: Fields) -> ShellySettings:
    """Read settings.

    Raises:
        InputError: names the field.
    """
    settings = ShellySettings(
        name=fields.text("name", ""),
        topic_prefix=fields.text("topic_prefix") if fields.has("topic_prefix") else None,
        rpc_ntf=fields.flag("rpc_ntf", default=True),
        status_ntf=fields.flag("status_ntf", default=False),
        enable_rpc=fields.flag("enable_rpc", default=True),
        enable_control=fields.flag("enable_control", default=True),
        online_retained=fields.flag("online_retained", default=False),
        auth=fields.flag("auth", default=False),
        calibrated=fields.flag("calibrated", default=True),
        version=fields.text("version", "1.7.1"),
        hardware=fields.text("hardware", "1"),
        stable=fields.text("stable", ""),
        beta=fields.text("beta", ""),
        address=fields.text("address", ""),
    )
    fields.done()
    prefix = settings.topic_prefix
    # What MQTT.SetConfig refuses.
    if prefix is not None and (
        not 0 < len(prefix) <= _LONGEST_PREFIX or prefix.startswith("$") or set(prefix) & set("#+%?")
    ):
        raise InputError(f"{fields.where}.topic_prefix: {prefix!r:.60} is none")
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a device is by birth.

    Attributes:
        id: such as ``shellyplus2pm-08b61f000001``.
        mac: twelve capital hexadecimal digits.
        app: the firmware's name.
        model: the order number.
        generation: 2 or later.
        profile: of a device with several; None for the others.
        buttons: whether it has inputs, so that a press is an event of its own.
    """

    id: str
    mac: str
    app: str
    model: str
    generation: int
    profile: str | None
    buttons: bool
