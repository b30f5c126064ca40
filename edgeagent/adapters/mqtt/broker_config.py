"""What mosquitto's configuration says about how much it keeps.

MQTT has no way to ask, and mosquitto answers PUBACK to a message that it then drops for want of room.
So health reads the file, where it may; otherwise all it can say is *not checkable*, and watch the
broker's own count (``MqttBus.dropped``). Options and defaults: mosquitto.conf(5), version 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

DEFAULT_PATH: Final = Path("/etc/mosquitto/mosquitto.conf")

# Far more than anybody writes by hand; a device file or a mistake ends here.
_MOST_BYTES: Final = 1024 * 1024
_MOST_FILES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """The options that decide what becomes of our messages.

    Attributes:
        queued: messages kept for a session that is away or slow; None for no limit.
        in_flight: messages sent to a v3.1.1 client before its PUBACK; None for no limit. For us our
            Receive Maximum counts instead.
        largest: bytes of payload that it takes; None for no limit.
        persistent: whether sessions and retained messages outlive the broker.
        saved_every: how often they are written; None for only at its end.
    """

    queued: int | None
    in_flight: int | None
    largest: int | None
    persistent: bool
    saved_every: timedelta | None

    @property
    def concerns(self) -> list[str]:
        """What an operator should change, a sentence each with the line to write."""
        found = []
        if self.queued is not None:
            found.append(
                f"The broker keeps {self.queued} messages for the agent while it is away, and drops what"
                " comes after them without a word: max_queued_messages 0"
            )
        if not self.persistent:
            found.append("The broker forgets all sessions when it stops: persistence true")
        elif self.saved_every is None:
            found.append("The broker writes its sessions only when it stops: autosave_interval 60")
        return found


def read_limits(path: Path = DEFAULT_PATH) -> BrokerLimits | None:
    """Read mosquitto's configuration.

    Returns:
        None when it cannot be read or understood: nothing is known then.
    """
    try:
        options = dict(_lines(path, nested=False))  # the last one counts
        autosave = int(options.get("autosave_interval", "1800"))
        return BrokerLimits(
            queued=int(options.get("max_queued_messages", "1000")) or None,
            in_flight=int(options.get("max_inflight_messages", "20")) or None,
            largest=int(options.get("message_size_limit", "0")) or None,
            persistent=options.get("persistence", "false").lower() in {"true", "1"},
            saved_every=timedelta(seconds=autosave) if autosave else None,
        )
    except (OSError, ValueError, OverflowError):
        return None


def _lines(path: Path, *, nested: bool) -> Iterator[tuple[str, str]]:
    """Options and their values in the order in which mosquitto takes them, files of ``include_dir`` too."""
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode()
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if name == "include_dir":
            if not nested:
                # Not glob(), which takes a folder that may not be read for an empty one.
                parts = sorted(part for part in Path(value.strip()).iterdir() if part.suffix == ".conf")
                for part in parts[:_MOST_FILES]:
                    yield from _lines(part, nested=True)
            continue
        yield name, value.strip()
