"""How a person at the hub looks at breakers, trips and resets them."""

from typing import Protocol

from edgeagent.contracts.reports.breakers import BreakerRequest, BreakersReport


class BreakerDesk(Protocol):
    """Answers about breakers; each ``actor`` is who the operating system says is asking."""

    async def report(self) -> BreakersReport:
        """All that there is something to say of."""
        ...

    async def trip(self, request: BreakerRequest, actor: str) -> BreakersReport:
        """Open one, until it is reset.

        Raises:
            RejectedError: no key of that name is known; nothing was changed.
        """
        ...

    async def reset(self, request: BreakerRequest, actor: str) -> BreakersReport:
        """Close one.

        Raises:
            RejectedError: it is closed, or no key of that name is known; nothing was changed.
        """
        ...
