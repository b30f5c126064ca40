"""How a person at the hub deals with dead letters."""

from typing import Protocol

from edgeagent.contracts.reports.dead_letters import (
    DealtsReport,
    DiscardRequest,
    LettersReport,
    LettersWanted,
    ReplayRequest,
)


class LetterDesk(Protocol):
    """Answers about dead letters; each ``actor`` is who the operating system says is asking."""

    async def letters(self, wanted: LettersWanted) -> LettersReport:
        """The letters that are meant, without what is in them."""
        ...

    async def show(self, number: int, actor: str) -> LettersReport:
        """One letter, whole; that it was shown is put on record.

        Raises:
            RejectedError: there is none of that number.
        """
        ...

    async def export(self, wanted: LettersWanted, actor: str) -> LettersReport:
        """Letters, whole; that they were handed out is put on record."""
        ...

    async def replay(self, request: ReplayRequest, actor: str) -> DealtsReport:
        """Have letters run again, each judged by the gate, all in one commit.

        Raises:
            RejectedError: nothing says which; nothing was changed.
        """
        ...

    async def discard(self, request: DiscardRequest, actor: str) -> DealtsReport:
        """Put letters away.

        Raises:
            RejectedError: nothing says which; nothing was changed.
        """
        ...
