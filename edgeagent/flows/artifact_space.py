"""The disk that files for devices may take: what is in use stays, the least recently used goes (SPEC F2)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.contracts.reports.fetches import Collected, CollectReport, Removal
from edgeagent.errors import RejectedError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import Digest
from edgeagent.ports.artifacts import SignedFile
from edgeagent.store.artifact_files import ArtifactFiles, Lying
from edgeagent.values import dataclass

MEBIBYTE: Final = 1024 * 1024
Live = Callable[[], Mapping[Digest, int]]
"""Tells what is on its way at this moment, with the bytes that it will have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceSettings:
    """How much is kept for how long.

    Attributes:
        budget: bytes that all files may take together.
        keep: for how long one stays that nobody uses.
        keep_parts: for how long a part stays whose fetch was not taken up again.
    """

    budget: int = 1024 * MEBIBYTE
    keep: timedelta = timedelta(days=30)
    keep_parts: timedelta = timedelta(days=2)


class ArtifactSpace:
    """The files, and what they may take.

    Attributes:
        taken: bytes that they took when somebody looked last.
        budget: bytes that they may take.
    """

    def __init__(self, files: ArtifactFiles, around: Surroundings, settings: SpaceSettings) -> None:
        self._files = files
        self._around = around
        self._settings = settings
        self._pins: Counter[Digest] = Counter()
        self.taken = 0

    def adopt(self, settings: SpaceSettings) -> None:
        """Go on with other settings; what is too much then goes when somebody looks next."""
        self._settings = settings

    @property
    def budget(self) -> int:
        """Bytes that all files may take together."""
        return self._settings.budget

    @contextmanager
    def pinned(self, sha256: Digest) -> Iterator[None]:
        """Keep a file from being removed."""
        self._pins[sha256] += 1
        try:
            yield
        finally:
            self._pins[sha256] -= 1
            if not self._pins[sha256]:
                del self._pins[sha256]

    async def part(self, file: SignedFile) -> Path:
        """Where what has come of a file lies; raises as ``ArtifactFiles.part`` does."""
        return await asyncio.to_thread(self._files.part, file.sha256)

    async def note_part(self, file: SignedFile) -> None:
        """Note that something was done for its part, by our own clock."""
        now = self._around.clock.wall().best
        await asyncio.to_thread(self._files.note_part, file.sha256, now)

    async def part_size(self, file: SignedFile) -> int:
        """How many bytes have come of it."""
        return await asyncio.to_thread(self._files.part_size, file.sha256)

    async def take(self, file: SignedFile) -> None:
        """Verify what has come of it; raises as ``ArtifactFiles.take`` does."""
        now = self._around.clock.wall().best
        await asyncio.to_thread(self._files.take, file.sha256, file.length, now)

    async def open(self, file: SignedFile) -> int:
        """Open it; raises as ``ArtifactFiles.open`` does."""
        now = self._around.clock.wall().best
        return await asyncio.to_thread(self._files.open, file.sha256, file.length, now)

    def check_size(self, file: SignedFile) -> None:
        """Refuse a file that could never be here.

        Raises:
            RejectedError: it is larger than all files may be together.
        """
        if file.length > self.budget:
            raise RejectedError(
                f"{file.artifact} has {_mebibytes(file.length)}, and [artifacts] budget is "
                f"{_mebibytes(self.budget)}: raise it"
            )

    async def make_room(self, file: SignedFile, live: Live) -> CollectReport:
        """Remove what nobody uses, until a file fits into the budget.

        Args:
            file: which is about to come.
            live: tells what is on its way, this one too, with the bytes that it will have.

        Raises:
            RejectedError: too much is in use.
            StorageError: the disk does not do it now.
        """
        lying = await asyncio.to_thread(self._files.all)
        going, left = self._over_budget(lying, live())
        if left > self.budget:
            raise RejectedError(
                f"{file.artifact} does not fit beside what is in use or on its way: wait, or raise "
                f"[artifacts] budget, which is {_mebibytes(self.budget)}"
            )
        return await self._removed(lying, [(each, Removal.BUDGET) for each in going], live, dry_run=False)

    async def collect(self, live: Live, *, dry_run: bool) -> CollectReport:
        """Remove what is too old or too much.

        Args:
            live: tells what is on its way, with the bytes that it will have.
            dry_run: only say what that is.

        Raises:
            StorageError: the disk does not do it now.
        """
        if not dry_run:
            await asyncio.to_thread(self._files.clear_strangers, frozenset(live()))
        lying = await asyncio.to_thread(self._files.all)
        # What is certainly over: a clock that is not sure removes nothing by age too early.
        now = self._around.clock.wall().earliest.timestamp()
        going: list[tuple[Lying, Removal]] = []
        for each in lying:
            keep = self._settings.keep_parts if each.is_part else self._settings.keep
            if self._is_free(each, live()) and now - each.used > keep.total_seconds():
                going.append((each, Removal.ABANDONED if each.is_part else Removal.AGE))
        old = {id(each) for each, _ in going}
        over, _ = self._over_budget([each for each in lying if id(each) not in old], live())
        going += [(each, Removal.BUDGET) for each in over]
        return await self._removed(lying, going, live, dry_run=dry_run)

    def _is_free(self, each: Lying, live: Collection[Digest]) -> bool:
        return each.sha256 not in live and not (self._pins[each.sha256] and not each.is_part)

    def _over_budget(self, lying: list[Lying], live: Mapping[Digest, int]) -> tuple[list[Lying], int]:
        """What has to go, and how much is left then."""
        left = sum(live.values()) + sum(each.size for each in lying if each.sha256 not in live)
        going: list[Lying] = []
        for each in lying:
            if left <= self.budget:
                break
            if self._is_free(each, live):
                going.append(each)
                left -= each.size
        return going, left

    async def _removed(
        self, lying: list[Lying], going: list[tuple[Lying, Removal]], live: Live, *, dry_run: bool
    ) -> CollectReport:
        for each, _ in [] if dry_run else [*going]:
            # It may have been taken into use, or taken up again, since we looked.
            if self._is_free(each, live()):
                await asyncio.to_thread(self._files.remove, each.sha256, is_part=each.is_part)
            else:
                going = [other for other in going if other[0] is not each]
        gone = sum(each.size for each, _ in going)
        kept = sum(each.size for each in lying) - gone
        self.taken = kept + (gone if dry_run else 0)
        self._around.metrics.artifact_bytes.set(self.taken)
        return CollectReport(
            dry_run=dry_run,
            removed=[Collected(sha256=each.sha256, bytes=each.size, why=why) for each, why in going],
            kept_bytes=kept,
            in_use=len(self._pins),
        )


def _mebibytes(size: int) -> str:
    return f"{-(-size // MEBIBYTE)} MiB"
