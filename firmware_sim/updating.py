"""A download into the spare slot, and what is done when it is there: the same in every family.

    begun --all there--> looked at --whole--> installed, and the next boot tries it
      |                     +--not taken--> failed
      +--cut, too large--> failed

The family says what it tells of it, through a ``Teller``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from firmware_sim.faults import Kind
from firmware_sim.firmware import Board, Timer, Wanted
from firmware_sim.flash import Flash
from firmware_sim.image import BadImageError, Label

NO_ROOM = "Not Enough Space"
"""Why something failed that is too large for its slot."""
OWN_CHECK = "Verification failed"
"""Why something failed that the device's own check refused."""


class Teller(Protocol):
    """Who tells the world."""

    def progressed(self, percent: int) -> None:
        """So much is there, as it is told."""
        ...

    def succeeded(self) -> None:
        """It says that the update is made; under a fault before it is."""
        ...

    def failed(self, why: str) -> None:
        """It is not made, and will not be."""
        ...

    def installed(self) -> None:
        """The next boot tries the new image."""
        ...


class Progress:
    """What is told of how far it is; under the fault ``progress_back`` it falls back once.

    Args:
        board: the hardware.
        part: of which part.
        update: which update it is.
    """

    def __init__(self, board: Board, part: str, update: int) -> None:
        self._board = board
        self._part = part
        self._update = update
        self._back = 0.0

    def told(self, percent: float) -> int:
        """What is told at so much."""
        if self._board.befalls(Kind.PROGRESS_BACK, self._part, percent=percent, update=self._update):
            self._back = percent * 2 / 3
        return int(percent - self._back)


class Update:
    """One update over HTTP: the device's own download.

    Args:
        board: the hardware.
        flash: where to.
        taken: looks at all of the image as the running firmware does.
        teller: who tells of it.
    """

    def __init__(self, board: Board, flash: Flash, taken: Callable[[bytes], Label], teller: Teller) -> None:
        self._board = board
        self._flash = flash
        self._taken = taken
        self._teller = teller
        self._fetching: Timer | None = None
        self._length: int | None = None
        self._come = 0
        self._early = False
        self._progress = Progress(board, flash.part, flash.updates)

    def start(self, url: str, *, old: bool, agent: str) -> None:
        """Begin to fetch; a new update, for the faults."""
        self._flash.updates += 1
        part, update = self._flash.part, self._flash.updates
        self._progress = Progress(self._board, part, update)
        self._early = self._board.befalls(Kind.EARLY_SUCCESS, part, update=update) is not None
        self._fetch(Wanted(url=url, part=part, update=update, old=old, agent=agent))
        if self._early:
            self._teller.succeeded()

    def again(self, url: str, *, old: bool, agent: str, resume: bool = False) -> None:
        """Try the same update once more, from its beginning or from where it was cut."""
        wanted = Wanted(url=url, part=self._flash.part, update=self._flash.updates, old=old, agent=agent)
        self._fetch(replace(wanted, begin=self._come) if resume else wanted)

    def cancel(self) -> None:
        """Forget it."""
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    # What the board calls: ``firmware.Taker``.

    def begun(self, begin: int, length: int | None) -> None:
        """Make room."""
        self._length = length
        if length is None or length > self._flash.room:
            self._fail(NO_ROOM if length is not None else "No Content-Length")
        elif begin == 0:
            self._come = 0
            self._flash.begin()

    def piece(self, data: bytes) -> None:
        """Write it, and tell how far it is."""
        if self._fetching is None or self._length is None:
            return
        self._flash.write(data)
        self._come += len(data)
        self._teller.progressed(self._progress.told(100 * self._come / self._length))

    def ended(self, why: str) -> None:
        """Look at it, and let the next boot try it."""
        if self._fetching is None:
            return
        self._fetching = None
        if why:
            self._teller.failed(why)
            return
        try:
            label = self._taken(self._flash.arrived)
            if self._board.befalls(Kind.OWN_CHECK, self._flash.part, update=self._flash.updates):
                raise BadImageError(OWN_CHECK)  # noqa: TRY301 - the fault speaks as the check would
        except BadImageError as refused:
            self._teller.failed(str(refused))
            return
        self._flash.install(label)
        if not self._early:
            self._teller.succeeded()
        self._teller.installed()

    def _fetch(self, wanted: Wanted) -> None:
        self.cancel()
        self._fetching = self._board.fetch(wanted, self)

    def _fail(self, why: str) -> None:
        self.cancel()
        self._teller.failed(why)
