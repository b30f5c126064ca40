"""The flash of a device, and the boot that looks at it before anything else runs.

    twin      two slots of the same size; the new image goes into the one that does not run
    single    one area: the new image goes behind the one that runs, as far as there is room, and the next
              boot copies it to the front (the ESP8266's eboot)

Which slot boots stands in two records that are written in turn, each with a number, so that one torn by a
power cut leaves the other (as the ESP32's ``otadata``). A new image boots on trial: the boot counts its
boots, and when it has not come up ``TRIES`` times it falls back to the earlier slot. Coming up ends the
trial. An image that is not whole never boots.

    confirmed --new image--> trial, 0 boots --boot--> trial, 1 boot … --came up--> confirmed
                                                         | TRIES boots, or not whole
                                                         +--> confirmed, the earlier slot (single: dark)

Every write may be torn by a power cut: of a sector, of a record. What boots then is whole.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from firmware_sim.faults import Kind
from firmware_sim.fields import Json
from firmware_sim.firmware import Board
from firmware_sim.image import SECTOR, BadImageError, Flaw, Label
from firmware_sim.journal import What

TRIES: Final = 3
"""Boots that a new image has to come up."""
_UNSTABLE: Final = 4
_NAMES: Final = ("a", "b")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the flash is divided.

    Attributes:
        size: of each slot, or of the one area, in bytes.
        twin: whether there are two slots.
    """

    size: int = 16 * 2**20
    twin: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What boots; the one with the higher number holds.

    Attributes:
        number: rising.
        slot: which one.
        trial: whether it has not come up yet.
        boots: of this trial.
        copying: whether it still lies behind the one area.
    """

    number: int
    slot: int = 0
    trial: bool = False
    boots: int = 0
    copying: bool = False


class Flash:
    """See the module's docstring.

    Args:
        board: the hardware.
        part: its name: ``flash``, or the address of a device behind a bridge.
        layout: how it is divided.
        whole: reads an image as the boot does, and raises ``BadImageError`` when it cannot be booted.
        factory: the image of delivery.
    """

    def __init__(
        self, board: Board, part: str, layout: Layout, whole: Callable[[bytes], Label], factory: bytes
    ) -> None:
        self.part = part
        self._board = board
        self._layout = layout
        self._whole = whole
        self._slots = [bytearray(factory), bytearray()]
        self._records: list[_Record | None] = [_Record(number=0), None]
        self._running = whole(factory)
        self._slot = 0
        self._lie: Label | None = None
        self._boots = 1
        self.updates = 0
        """How many updates have been begun."""

    @property
    def running(self) -> Label:
        """What runs."""
        return self._running

    @property
    def told(self) -> Label:
        """What it says that runs."""
        return self._running if self._lie is None else self._lie

    @property
    def room(self) -> int:
        """How long a new image may be, in bytes."""
        return self._layout.size if self._layout.twin else self._layout.size - len(self._slots[0])

    @property
    def used(self) -> int:
        """How long the image is that runs, in bytes."""
        return len(self._slots[self._slot])

    def begin(self) -> None:
        """Erase the place for a new image.

        Raises:
            PowerLostError: in the middle of it.
        """
        spare = self._slots[self._spare]
        del spare[len(spare) // 2 :]
        self._board.writes_flash(self.part)
        spare.clear()

    def write(self, data: bytes) -> None:
        """Write more of the new image, sector by sector.

        Raises:
            PowerLostError: in the middle of it; half of a sector is written.
        """
        _append(self._board, self.part, self._slots[self._spare], data)

    @property
    def arrived(self) -> bytes:
        """The new image, as far as it is written."""
        return bytes(self._slots[self._spare])

    def install(self, new: Label) -> None:
        """Let the next boot try the new image.

        Raises:
            PowerLostError: in the middle of writing that.
        """
        self._lie = None
        if self._board.befalls(Kind.TELLS_NEW, self.part, update=self.updates):
            self._lie = new
            return
        if self._board.befalls(Kind.TELLS_OLD, self.part, update=self.updates):
            self._lie = self._running
        slot = self._spare if self._layout.twin else 0
        self._record(slot=slot, trial=True, copying=not self._layout.twin)

    def boot(self, usual: timedelta) -> timedelta | None:
        """Boot what is whole, and fall back where it has to be.

        Args:
            usual: how long one boot takes.

        Returns:
            How long it took; None when nothing boots any more.

        Raises:
            PowerLostError: in the middle of a write; the next boot begins anew.
        """
        taken = timedelta(0)
        while True:
            taken += usual
            self._boots += 1
            record = self._counted(self._copied(self._newest()))
            if record is None:
                return self._dark("no boot left")
            label = self._looked_at(record)
            if label is None:
                if not self._fall_back(record):
                    return self._dark("nothing whole to boot")
                continue
            if record.trial and record.boots == 1:
                slow = self._board.befalls(Kind.SLOW_REBOOT, self.part, update=self.updates)
                taken += timedelta(0) if slow is None else slow.lasting or timedelta(0)
            if not self._crashes(record, label):
                self._runs(record, label)
                return taken
            self._tell(record, label, "crashed")
            if not record.trial:
                return self._dark("it never comes up")

    def came_up(self, usual: timedelta) -> timedelta | None:
        """The new firmware works, as far as it can tell.

        Args:
            usual: how long one boot takes.

        Returns:
            When it will boot once more, of its own; None when it will not.

        Raises:
            PowerLostError: in the middle of writing that.
        """
        record = self._newest()
        if record.trial:
            self._record(slot=record.slot)
            if self._board.befalls(Kind.DOUBLE_REBOOT, self.part, update=self.updates):
                return timedelta(0)
        return usual * _UNSTABLE if self._running.flaw is Flaw.UNSTABLE else None

    def describe(self) -> Mapping[str, Json]:
        """The true state."""
        record = self._newest()
        return {
            "running": {"slot": _NAMES[self._slot], **_told(self._running), "sha256": self._hash(self._slot)},
            "told": self.told.version,
            "slots": {
                name: {"bytes": len(self._slots[place]), "sha256": self._hash(place)}
                for place, name in enumerate(_NAMES)
            },
            "trial": record.trial,
            "boots": self._boots,
            "updates": self.updates,
        }

    @property
    def _spare(self) -> int:
        return 1 - self._slot if self._layout.twin else 1

    def _newest(self) -> _Record:
        return max((record for record in self._records if record is not None), key=lambda one: one.number)

    def _record(self, *, slot: int, trial: bool = False, boots: int = 0, copying: bool = False) -> _Record:
        """Write what boots, over the older of the two records."""
        number = self._newest().number + 1
        self._records[number % 2] = None
        self._board.writes_flash(self.part)
        record = _Record(number=number, slot=slot, trial=trial, boots=boots, copying=copying)
        self._records[number % 2] = record
        return record

    def _copied(self, record: _Record) -> _Record:
        """Copy the new image to the front; a power cut in it is mended by the next boot."""
        if not record.copying:
            return record
        try:
            self._whole(bytes(self._slots[1]))
        except BadImageError:
            return self._record(slot=0)  # eboot leaves the old one alone
        front = self._slots[0] = bytearray()
        _append(self._board, self.part, front, self._slots[1])
        return self._record(slot=0, trial=True)

    def _counted(self, record: _Record) -> _Record | None:
        """Count a boot on trial; fall back when there were enough."""
        if not record.trial:
            return record
        if record.boots < TRIES:
            return self._record(slot=record.slot, trial=True, boots=record.boots + 1)
        return self._record(slot=1 - record.slot) if self._layout.twin else None

    def _looked_at(self, record: _Record) -> Label | None:
        try:
            return self._whole(bytes(self._slots[record.slot]))
        except BadImageError as why:
            self._note(record, "damaged", {"version": None, "error": str(why)})
            return None

    def _fall_back(self, record: _Record) -> bool:
        """To the other slot, if there is one and it was on trial or not; False when there is nothing."""
        if not self._layout.twin:
            return False
        try:
            self._whole(bytes(self._slots[1 - record.slot]))
        except BadImageError:
            return False
        self._record(slot=1 - record.slot)
        return True

    def _crashes(self, record: _Record, label: Label) -> bool:
        if label.flaw is Flaw.CRASH:
            return True
        return record.trial and self._board.befalls(Kind.BOOT_LOOP, self.part) is not None

    def _runs(self, record: _Record, label: Label) -> None:
        if self._lie is not None and record.slot != self._slot and not record.trial:
            self._lie = None  # it fell back: there is nothing to lie about
        self._slot, self._running = record.slot, label
        self._tell(record, label, "up")

    def _tell(self, record: _Record, label: Label, outcome: str) -> None:
        self._note(record, outcome, _told(label))

    def _note(self, record: _Record, outcome: str, more: Mapping[str, Json]) -> None:
        details: dict[str, Json] = {
            "part": self.part,
            "slot": _NAMES[record.slot],
            **more,
            "sha256": self._hash(record.slot),
            "outcome": outcome,
            "trial": record.trial,
        }
        self._board.note(What.BOOTED, details)

    def _dark(self, why: str) -> timedelta | None:
        self._board.note(What.GONE, {"part": self.part, "why": why})
        return None

    def _hash(self, slot: int) -> str | None:
        return hashlib.sha256(self._slots[slot]).hexdigest() if self._slots[slot] else None


def _append(board: Board, part: str, slot: bytearray, data: bytes | bytearray) -> None:
    for place in range(0, len(data), SECTOR):
        sector = data[place : place + SECTOR]
        slot += sector[: len(sector) // 2]
        board.writes_flash(part)
        slot += sector[len(sector) // 2 :]


def _told(label: Label) -> dict[str, Json]:
    return {"version": label.version, "minimal": label.minimal, "model": label.model}
