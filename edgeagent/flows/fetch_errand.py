"""A file on its way: who wants it, and how far it is."""

import asyncio
from collections.abc import Iterator
from dataclasses import field

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.reports.fetches import FetchReport, FetchState
from edgeagent.ids import ArtifactId
from edgeagent.ports.artifacts import FetchError, SignedFile
from edgeagent.values import dataclass


@dataclass(slots=True, eq=False)
class Errand:
    """One fetch, from its beginning to its end.

    Attributes:
        file: which.
        actor: who has asked first.
        report: how it stands.
        done: is set at its end.
        waiting: how many flows wait for it.
        is_stopped: whether somebody has stopped it.
        is_ending: whether its end is being put on record; it is stopped no more.
        task: who runs it; None before its turn.
        also: other ids under which the same bytes are wanted.
    """

    file: SignedFile
    actor: str
    report: FetchReport
    done: asyncio.Future[None]
    waiting: int = 0
    is_stopped: bool = False
    is_ending: bool = False
    task: asyncio.Task[None] | None = None
    also: set[ArtifactId] = field(default_factory=set)

    def joins(self, file: SignedFile) -> None:
        """Have it be for another id of the same bytes too.

        Raises:
            FetchError: those are said to be more or fewer, and one of the two is not true.
        """
        if file.length != self.file.length:
            words = f"{file.artifact} and {self.file.artifact} are said to be the same bytes, and not as many"
            raise FetchError(FetchTrouble.FAILED, words)
        if file.artifact != self.file.artifact:
            self.also.add(file.artifact)

    def reports(self) -> Iterator[FetchReport]:
        """How it stands, under each id."""
        yield self.report
        for artifact in sorted(self.also):
            yield self.report.model_copy(update={"artifact": artifact})

    def notes(self, **changes: object) -> None:
        """Change what is told of it."""
        self.report = self.report.model_copy(update=changes)

    def tells(self, size: int) -> None:
        """Note how many bytes are here."""
        self.notes(bytes=min(size, self.file.length))


def report_of(file: SignedFile, state: FetchState, size: int, *, tries: int = 0) -> FetchReport:
    """How a fetch stands."""
    return FetchReport(
        artifact=file.artifact, sha256=file.sha256, length=file.length, state=state, bytes=size, tries=tries
    )
