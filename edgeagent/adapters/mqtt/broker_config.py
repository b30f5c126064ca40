"""What mosquitto's configuration says about how much it keeps, and whom it lets in.

MQTT has no way to ask, and mosquitto answers PUBACK to a message that it then drops for want of room.
So health reads the file, where it may; otherwise all it can say is *not checkable*, and watch the
broker's own count (``MqttBus.dropped``). Options and defaults: mosquitto.conf(5), version 2.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.values import dataclass

DEFAULT_PATH: Final = Path("/etc/mosquitto/mosquitto.conf")

# Far more than anybody writes by hand; a device file or a mistake ends here.
_MOST_BYTES: Final = 1024 * 1024
_MOST_FILES: Final = 100
# mosquitto 2.0 hangs up on whoever publishes what it may not where there is no limit at all (0).
_ENOUGH_QUEUED: Final = 10_000
_RULES: Final = frozenset({"acl_file", "plugin", "auth_plugin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """The options that decide what becomes of our messages.

    Attributes:
        queued: messages kept for a session that is away or slow; None for no limit.
        largest: bytes of payload that it takes; None for no limit.
        persistent: whether sessions and retained messages outlive the broker.
        saved_every: how often they are written; None for only at its end.
    """

    queued: int | None
    largest: int | None
    persistent: bool
    saved_every: timedelta | None

    @property
    def concerns(self) -> list[str]:
        """What an operator should change, a sentence each with the line to write."""
        found = []
        if self.queued is not None and self.queued < _ENOUGH_QUEUED:
            found.append(
                f"the broker keeps {self.queued} messages for the agent while it is away, and drops what"
                " comes after them without a word: max_queued_messages 100000"
            )
        if not self.persistent:
            found.append("the broker forgets all sessions when it stops: persistence true")
        elif self.saved_every is None:
            found.append("the broker writes its sessions only when it stops: autosave_interval 60")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDoor:
    """Whom the configuration lets in, and whether it says who may do what.

    Attributes:
        anonymous: whether clients may come without a name.
        rules: whether it is said which topics a client may use.
        is_local: whether it listens on this machine only, since it names no listener.
    """

    anonymous: bool
    rules: bool
    is_local: bool


@dataclass(frozen=True, slots=True)
class Option:
    """A line of mosquitto's configuration that says something.

    Attributes:
        name: of the option.
        value: what stands after it; may be empty.
        file: where it stands.
        line: on which line of it.
    """

    name: str
    value: str
    file: Path
    line: int


def read_options(path: Path = DEFAULT_PATH) -> Sequence[Option] | None:
    """Every option in the order in which mosquitto takes them, those of ``include_dir`` too.

    Returns:
        None when it cannot be read or understood.
    """
    try:
        return list(_lines(path, nested=False))
    except (OSError, ValueError):
        return None


def read_door(path: Path = DEFAULT_PATH) -> BrokerDoor | None:
    """Read whom mosquitto lets in.

    Returns:
        None when its configuration cannot be read or understood.
    """
    found = read_options(path)
    if found is None:
        return None
    names = {option.name for option in found}
    said = [option.value.lower() for option in found if option.name == "allow_anonymous"]
    # Without any listener it serves this machine only, and anybody on it.
    is_local = not {"listener", "port"} & names
    default = "true" if is_local else "false"
    return BrokerDoor(
        anonymous=(said or [default])[-1] in {"true", "1"},
        rules=bool(_RULES & names),
        is_local=is_local,
    )


def read_limits(path: Path = DEFAULT_PATH) -> BrokerLimits | None:
    """Read mosquitto's configuration.

    Returns:
        None when it cannot be read or understood: nothing is known then.
    """
    found = read_options(path)
    if found is None:
        return None
    options = {option.name: option.value for option in found}  # the last one counts
    try:
        autosave = int(options.get("autosave_interval", "1800"))
        return BrokerLimits(
            queued=int(options.get("max_queued_messages", "1000")) or None,
            largest=int(options.get("message_size_limit", "0")) or None,
            persistent=options.get("persistence", "false").lower() in {"true", "1"},
            saved_every=timedelta(seconds=autosave) if autosave else None,
        )
    except (ValueError, OverflowError):
        return None


def _lines(path: Path, *, nested: bool) -> Iterator[Option]:
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode()
    for number, line in enumerate(text.splitlines(), start=1):
        name, _, value = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if name == "include_dir" and not nested:
            # Not glob(), which takes a folder that may not be read for an empty one.
            parts = [part for part in Path(value.strip()).iterdir() if part.suffix == ".conf"]
            for part in sorted(parts, key=_order)[:_MOST_FILES]:
                yield from _lines(part, nested=True)
        yield Option(name, value.strip(), path, number)


def _order(part: Path) -> list[tuple[str, str]]:
    """Mosquitto takes letters without their case first, then by it."""
    return [(sign.upper(), sign) for sign in part.name]
