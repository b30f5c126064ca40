"""A file on its way: who wants it, and how far it is."""

import asyncio
from dataclasses import dataclass

from edgeagent.contracts.reports.fetches import FetchReport, FetchState
from edgeagent.ports.artifacts import SignedFile


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
    """

    file: SignedFile
    actor: str
    report: FetchReport
    done: asyncio.Future[None]
    waiting: int = 0
    is_stopped: bool = False
    is_ending: bool = False
    task: asyncio.Task[None] | None = None

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
