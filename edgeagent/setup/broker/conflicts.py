"""What of somebody else's configuration stands in the way of ours.

In mosquitto who may come in is said for all listeners at once. So what others have said of it would hold for
ours, and ours for theirs: where anybody has said anything, nothing is written and it is told where it stands.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from edgeagent.adapters.mqtt.broker_config import Option, read_options
from edgeagent.setup.broker.place import BrokerPlace

_WHO: Final = frozenset(
    {
        "acl_file",
        "allow_anonymous",
        "auth_plugin",
        "password_file",
        "per_listener_settings",
        "plugin",
        "psk_file",
    }
)
# Where no listener stands before them in their file, mosquitto takes them for one of its own on port 1883.
_OF_A_LISTENER: Final = frozenset(
    {
        *("bind_address", "bind_interface", "cafile", "capath", "certfile", "ciphers", "crlfile", "keyfile"),
        *("max_connections", "max_qos", "mount_point", "protocol", "psk_hint", "require_certificate"),
        *("socket_domain", "use_identity_as_username", "use_subject_as_username"),
    }
)
_INSTALL: Final = "apt-get install mosquitto"


def others_options(place: BrokerPlace) -> Sequence[Option] | None:
    """What others have written, in order; None when it cannot be read."""
    found = read_options(place.main)
    return None if found is None else [option for option in found if option.file != place.own]


def obstacles(place: BrokerPlace, ports: Sequence[int]) -> list[str]:
    """Why nothing of ours can be put there; a sentence each.

    Args:
        place: the broker's.
        ports: that we are going to listen on.
    """
    options = others_options(place)
    if options is None:
        return [f"{place.main} cannot be read: {_INSTALL}"]
    found = [
        f"{_where(option)} says who may come in ({option.name}): take the line away, or stay a guest"
        for option in options
        if option.name in _WHO and (option.name, option.value.lower()) != ("per_listener_settings", "false")
    ]
    found += [
        f"{_where(option)} listens on port {port} already: take the line away, or choose another port"
        for option in options
        for port in ports
        if option.name in {"listener", "port"} and option.value.split(" ")[0] == str(port)
    ]
    found += [
        f"{_where(option)} opens a listener of mosquitto's own on port 1883 ({option.name}): take the line "
        "away, or put it behind a listener"
        for option in _without_listener(options)
    ]
    if not any(
        option.name == "include_dir" and option.value.rstrip("/") == str(place.includes) for option in options
    ):
        found.append(f"{place.main} does not include {place.includes}: add include_dir {place.includes}")
    return found


def _without_listener(options: Sequence[Option]) -> Iterator[Option]:
    """Options of a listener that stand before any in their file."""
    has_listener = set()
    for option in options:
        if option.name in {"listener", "port"}:
            has_listener.add(option.file)
        elif option.name in _OF_A_LISTENER and option.file not in has_listener:
            yield option


def _where(option: Option) -> str:
    return f"{option.file}:{option.line}"
