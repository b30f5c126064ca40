"""``OtaUrl`` and ``Upgrade``: how a Tasmota updates itself (support_tasmota.ino, ``ota_state_flag``).

    OtaUrl <url>   {"OtaUrl":"<url>"}; at most 100 characters, a longer one is not taken
    Upgrade 1      {"Upgrade":"Version 14.1.0 from <url>"}, or {"Upgrade":"1 or >14.1.0 to upgrade"}
                   … up to five tries, without a word …
    UPGRADE        {"Upgrade":"Successful. Restarting"} or {"Upgrade":"Failed <text of the library>"}

What bites:

*   There is no progress, and no answer names the version that it installs.
*   It restarts after a failure too, "to keep memory clean".
*   It speaks HTTP/1.0 without TLS, and asks for no range.
*   With one megabyte of flash there is no room for a full image beside the one that runs. It then asks for
    ``<name>-minimal.bin`` in the same place, boots that, and goes on of its own to the full one. That it has
    to go on stands in memory that lives through a restart and not through a power cut; nor does it go on a
    second time when the full one fails. Either leaves it on the minimal build, for somebody to ask again.
*   A second ``Upgrade 1`` while one runs is answered the same, and begins anew (*assumed*).
*   What it checks of an image is next to nothing; see ``image``.
"""

from collections.abc import Callable, Mapping
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Timer, Timing
from firmware_sim.flash import Flash
from firmware_sim.image import Label
from firmware_sim.tasmota.command import Command
from firmware_sim.tasmota.image import taken
from firmware_sim.updating import NO_ROOM, Update

LONGEST_URL: Final = 100
"""Characters."""
TRIES: Final = 5
"""Of one download."""
_AGENT: Final = "ESP8266-http-Update"
_PARTS, _DIGITS = 4, 10
_SUFFIX: Final = ".bin"


def full_version(label: Label) -> str:
    """As ``STATUS2`` and ``INFO1`` have it, with the build's name."""
    return f"{label.version}({'minimal' if label.minimal else 'release-tasmota'})"


class Upgrade:
    """The update of one device.

    Args:
        board: the hardware.
        flash: what it writes to.
        timing: how long things take.
        default_url: of delivery.
        tell: says an answer: on ``RESULT``, or on a topic of its own when one is named.
    """

    def __init__(
        self,
        board: Board,
        flash: Flash,
        timing: Timing,
        default_url: str,
        tell: Callable[[str, Mapping[str, Json]], None],
    ) -> None:
        self._board = board
        self._flash = flash
        self._timing = timing
        self._url = default_url
        self._tell = tell
        self._update = Update(board, flash, taken, self)
        self._waiting: Timer | None = None
        self._tries = 0
        self._loader = False

    def boot(self, *, cold: bool) -> None:
        """Forget the running update; after a power cut, that there is more to come."""
        self._update.cancel()
        self._waiting = None
        if cold:
            self._loader = False

    def settled(self) -> None:
        """It is connected after a boot: the minimal build goes on to the full one."""
        if self._loader and self._flash.running.minimal:
            self._loader = False
            self._begin()

    def set_url(self, asked: Command) -> None:
        """``OtaUrl``."""
        if asked.data and len(asked.data) <= LONGEST_URL:
            self._url = asked.data
        self._tell("OTAURL", {"OtaUrl": self._url})

    def upgrade(self, asked: Command) -> None:
        """``Upgrade``: 1, or a version that is newer than its own."""
        version = self._flash.told.version
        if asked.data == "1" or (len(asked.data) > 2 and _newer(asked.data, version)):  # noqa: PLR2004 - "1.2"
            self._tell("UPGRADE", {"Upgrade": f"Version {version} from {self._url}"})
            self._loader = False
            self._begin()
        else:
            self._tell("UPGRADE", {"Upgrade": f"1 or >{version} to upgrade"})

    # What the update calls: ``updating.Teller``.

    def progressed(self, percent: int) -> None:
        """It tells nobody."""

    def succeeded(self) -> None:
        """Say so."""
        self._say("Successful. Restarting")

    def failed(self, why: str) -> None:
        """Try again; at the last time say so, and restart."""
        if why == NO_ROOM and not self._flash.running.minimal:
            self._loader = True  # the minimal image next
        if self._tries < TRIES:
            self._wait(self._again)
            return
        self._loader = False
        self._say(f"Failed {why}")
        self._board.restart(self._timing.restart)

    def installed(self) -> None:
        """Restart into it."""
        self._board.restart(self._timing.restart)

    def _begin(self) -> None:
        self._update.cancel()
        self._tries = 0
        self._wait(self._first)

    def _wait(self, then: Callable[[], None]) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self._board.start_timer(self._timing.retry, then)

    def _first(self) -> None:
        self._tries = 1
        if self._reachable():
            self._update.start(self._url, old=True, agent=_AGENT)

    def _again(self) -> None:
        self._tries += 1
        if self._reachable():
            self._update.again(self._asked_for(), old=True, agent=_AGENT)

    def _reachable(self) -> bool:
        if self._url.startswith("http://"):
            return True
        self.failed("HTTP error: connection refused")
        return False

    def _asked_for(self) -> str:
        if not self._loader or not self._url.endswith(_SUFFIX):
            return self._url
        return f"{self._url.removesuffix(_SUFFIX)}-minimal{_SUFFIX}"

    def _say(self, text: str) -> None:
        self._tell("stat/UPGRADE", {"Upgrade": text})


def _newer(wanted: str, running: str) -> bool:
    """``NewerVersion``: up to four numbers with points; anything else is not newer."""
    pairs = [_numbers(text) for text in (wanted, running)]
    return all(pairs) and pairs[0] > pairs[1]


def _numbers(text: str) -> list[int]:
    """The numbers of a version; none when it is none."""
    parts = text.split(".")
    right = len(parts) <= _PARTS and all(
        part.isascii() and part.isdecimal() and len(part) < _DIGITS for part in parts
    )
    return [int(part) for part in parts] if right else []
