"""From the cloud's queue into the inbox.

    CommandSource ──lent for a while──> gate ──> one commit ──> acknowledged
         └──orders──> kill switch ──> one commit ──────────────┘

A command is on the disk, accepted or refused, before the cloud's copy is acknowledged (SPEC Q3). What is
not acknowledged comes again and is known as a duplicate. Nothing is kept waiting in memory: what was lent
is judged at once, or handed back when the store cannot take it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import timedelta

from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE
from edgeagent.core.envelope import type_of
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import StorageError
from edgeagent.flows.admission import Admission, Arrival
from edgeagent.flows.bells import Bell
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.switch import KillSwitch
from edgeagent.ports.cloud import CommandSource, Delivery
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.values import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownlinkSettings:
    """How commands are fetched.

    Attributes:
        most: how many are borrowed at once.
        wait: how long the queue is asked to wait for the first.
        hold: for how long they are borrowed: long enough to store them on a slow card, and no longer. What
            was lent to an agent that has died comes again only then.
        backoff: after failures.
    """

    most: int = 20
    wait: timedelta = timedelta(seconds=25)
    hold: timedelta = timedelta(seconds=15)
    backoff: BackoffRule = field(default_factory=BackoffRule)


class Downlink:
    """Fetches commands; one owner of the link to the command source.

    Attributes:
        trouble: what kind of failure lasts; None while it works.
        why: the last failure, for people.
    """

    def __init__(
        self,
        source: CommandSource,
        admission: Admission,
        switch: KillSwitch,
        around: Surroundings,
        settings: DownlinkSettings,
    ) -> None:
        self._source = source
        self._admission = admission
        self._switch = switch
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self.trouble: Trouble | None = None
        self.why = ""

    async def run_when(self, ready: Callable[[], bool], bell: Bell) -> None:
        """Fetch from the moment on in which commands can be judged; ends only by cancellation.

        What is taken before the first policy has come would be refused for good.

        Args:
            ready: whether they can.
            bell: rings when that may have changed.
        """
        while not ready():
            await bell.wait(None)
        await self.run()

    async def run(self) -> None:
        """Fetch what is there and what comes; ends only by cancellation."""
        settings = self._settings
        while True:
            try:
                with self._around.at_work("downlink"):
                    lent = await self._source.lease(
                        most=settings.most, wait=settings.wait, hold=settings.hold
                    )
                    await self._take(lent)
            except LinkError as why:
                await self._failed(why)
            else:
                self._backoff.worked(self._around.clock.boot())
                self.trouble, self.why = None, ""

    async def _take(self, lent: Sequence[Delivery]) -> None:
        if not lent:
            return
        handles = [delivery.handle for delivery in lent]
        envelopes = [delivery.envelope for delivery in lent]
        orders = [raw for raw in envelopes if type_of(raw, limit=ORDER_BYTES) == ORDER_TYPE]
        commands = [
            Arrival(delivery.envelope, traceparent=delivery.traceparent)
            for delivery in lent
            if delivery.envelope not in orders
        ]
        try:
            # First: what came together with a stop is stopped.
            if orders:
                await self._switch.obey(orders)
            if commands:
                await self._admission.admit(commands)
        except StorageError as why:
            log.warning("commands handed back", extra={"count": len(lent), "why": str(why)})
            await self._source.hand_back(handles)
            raise LinkError(Trouble.BUSY, f"the store does not take commands: {why}") from why
        await self._source.acknowledge(handles)

    async def _failed(self, why: LinkError) -> None:
        if self.trouble is not why.trouble:
            log.warning("downlink fails", extra={"trouble": why.trouble, "why": str(why)})
        self.trouble, self.why = why.trouble, str(why)
        now = self._around.clock.boot()
        wait = self._backoff.failed(now, chance=self._around.chance(), at_least=why.retry_after)
        await asyncio.sleep(wait.total_seconds())
