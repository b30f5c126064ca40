"""The floor file: what is remembered of the hub outside of its database, in two slots.

    state_dir/floor.a    marks 1, 3, 5 ...        {"mark": {...}, "sha256": "..."}
    state_dir/floor.b    marks 2, 4, 6 ...

A mark is written whole beside its slot, synced and renamed over it, the slots in turn: whatever a power
cut or a bad sector leaves of one, the other holds the mark before. The newest whole mark of this hub
counts. The hash covers the mark's JSON, compact and with sorted keys; it finds accidents, it proves
nothing against whoever may write to the folder.
"""

import json
import logging
from hashlib import sha256
from pathlib import Path
from typing import Final

from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.floormark import FloorMark
from edgeagent.contracts.scalars import DigestField
from edgeagent.errors import MalformedError, StorageError
from edgeagent.ids import Digest, HubId
from edgeagent.store.whole_file import write_whole

log = logging.getLogger(__name__)

SLOTS: Final = ("floor.b", "floor.a")
"""The slots' names; a mark goes into that of its sequence's remainder."""

_MARK_BYTES: Final = 4096


class _Slot(Contract):
    """The content of a slot."""

    mark: FloorMark
    sha256: DigestField


class FloorFile:
    """The floor file of a hub."""

    def __init__(self, folder: Path, hub: HubId) -> None:
        self._folder = folder
        self._hub = hub

    def read(self) -> FloorMark | None:
        """The newest whole mark of this hub; None when there is none.

        What cannot be used is told in the log and left as it is until it is written over.
        """
        marks = [mark for mark in map(self._read_slot, SLOTS) if mark is not None]
        return max(marks, key=lambda mark: mark.sequence, default=None)

    def write(self, mark: FloorMark) -> None:
        """Put a mark into its slot.

        Raises:
            StorageError: it is not there; the mark before it is untouched.
        """
        slot = self._folder / SLOTS[mark.sequence % len(SLOTS)]
        try:
            write_whole(slot, encode(_Slot(mark=mark, sha256=_digest(mark))), mode=0o600)
        except OSError as why:
            raise StorageError(f"cannot write {slot}: {why.strerror}") from why

    def _read_slot(self, name: str) -> FloorMark | None:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                slot = decode(_Slot, file.read(_MARK_BYTES + 1), limit=_MARK_BYTES)
        except FileNotFoundError:
            return None
        except (OSError, MalformedError) as why:
            log.warning("slot of the floor file not usable", extra={"slot": name, "why": str(why)})
            return None
        if slot.sha256 != _digest(slot.mark):
            log.warning("slot of the floor file not usable", extra={"slot": name, "why": "another hash"})
            return None
        if slot.mark.hub != self._hub:
            log.warning("floor file of another hub ignored", extra={"slot": name, "hub": slot.mark.hub})
            return None
        return slot.mark


def _digest(mark: FloorMark) -> Digest:
    fields = mark.model_dump(mode="json", exclude_none=True)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return Digest(sha256(text.encode()).hexdigest())
