"""Following an audit trail against what others know of it (SPEC A3).

    basis ──row──row──row──anchor──row──anchor──row──> end

The chain alone finds an edited, removed, swapped or inserted row as long as its hashes were not made anew.
An *anchor* is a row's hash by somebody else's word: a checkpoint that the hub's key has signed, or the head
that the cloud was told. It finds rows whose hashes were made anew, and a tail that was cut off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field

from edgeagent.contracts.checkpoint import CHECKPOINT_BYTES, Checkpoint
from edgeagent.contracts.door import decode
from edgeagent.core.audit_chain import AuditRow, Break, first_break
from edgeagent.core.evidence import told_checkpoint
from edgeagent.errors import RejectedError
from edgeagent.ids import HubId
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Anchor:
    """A row as somebody else knows it.

    Attributes:
        number: the row's.
        hash: its hash.
        whose: by whose word, for people.
    """

    number: int
    hash: bytes
    whose: str


def anchors_of(checkpoints: Iterable[tuple[int, bytes]], hub: HubId, key: bytes) -> list[Anchor] | Break:
    """What a hub's checkpoints know, if the hub has signed each of them.

    Args:
        checkpoints: each as JSON text with its proof, by the number of its row.
        hub: whose they are to be.
        key: its public key.

    Returns:
        The row of the first that proves nothing, if there is one.
    """
    anchors = []
    for number, data in checkpoints:
        try:
            told = decode(Checkpoint, data, limit=CHECKPOINT_BYTES)
            mark = told_checkpoint(told, key).audit
        except RejectedError as why:
            return Break(number, f"its checkpoint proves nothing: {why}")
        if told.hub != hub or mark.number != number:
            return Break(number, "its checkpoint is of another trail or row")
        anchors.append(Anchor(number, bytes.fromhex(mark.hash), "a signed checkpoint"))
    return anchors


@dataclass(slots=True)
class Follower:
    """Follows a trail, part by part.

    Attributes:
        after: the number of the last row that fits; at first of the row before the first.
        previous: the hash of that row.
        anchors: what is known, still to be met; in any order.
    """

    after: int
    previous: bytes
    anchors: list[Anchor] = field(default_factory=list)

    def follow(self, rows: Sequence[tuple[AuditRow, bytes]]) -> Break | None:
        """Follow the next rows, each with its stored hash.

        Returns:
            The first row that does not fit; nothing is to be followed after it.
        """
        found = first_break(rows, after=self.after, previous=self.previous)
        hashes = {row.number: stored for row, stored in rows}
        upto = found.number - 1 if found else self.after + len(rows)
        met = sorted((each for each in self.anchors if each.number <= upto), key=lambda each: each.number)
        for anchor in met:
            if anchor.number in hashes and hashes[anchor.number] != anchor.hash:
                return Break(anchor.number, f"it is not the row that {anchor.whose} names")
        if found is None and rows:
            self.anchors = [each for each in self.anchors if each.number > upto]
            self.after, self.previous = upto, hashes[upto]
        return found

    def end(self) -> Break | None:
        """What is missing at the end: rows that somebody else knows of."""
        missing = [each for each in self.anchors if each.number > self.after]
        if not missing:
            return None
        furthest = max(missing, key=lambda each: each.number)
        return Break(
            self.after + 1,
            f"it is missing, with all that followed: {furthest.whose} names row {furthest.number}",
        )
