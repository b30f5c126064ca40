"""A venue whose queue is in the wrong hands: it lends what was signed or forged, as often as its owner likes.

    with in_wrong_hands(folder, keys) as hands:
        before = hands.contents()
        hands.deliver(envelope, times=50)
        assert hands.contents() == before

What has come of it is read where an outsider can: in the plugs' journal, in the hub's database, at the cloud.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.clock import Clock, ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.door import decode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import Signer
from edgeagent.ids import CommandId, DeviceId, HubId, Operation
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from firmware_sim.journal import What
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_keys import Keys
from tests.support.agents_venue import HUB, NOTHING, PLUG, Venue
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query

MINUTES: Final = timedelta(minutes=5)
_TABLES: Final = {
    "inbox": "SELECT run, command, device, signers, state, attempts, sent FROM inbox ORDER BY run",
    "versions": "SELECT device, version FROM shadows ORDER BY device",
    "operations": "SELECT key, state, command FROM operations ORDER BY key",
    "receipts": "SELECT run, number FROM receipts ORDER BY run",
    "approvals": "SELECT run, actor FROM approvals ORDER BY number",
    "stops": "SELECT kind, verb FROM stops ORDER BY kind",
    "policy": "SELECT version FROM policy",
}
_STATE: Final = """
SELECT count(*) FROM (SELECT device FROM shadow_readings
                       WHERE reading IN ('availability', 'firmware', 'power')
                       GROUP BY device HAVING count(*) = 3)
"""
"""How many plugs have said all that their version counts: nothing of it is to come when a story begins."""
Rows = list[tuple[object, ...]]


@dataclass(slots=True)
class Hands:
    """What somebody can do who owns the queue, and has some of the keys.

    Attributes:
        venue: what runs.
        queue: theirs.
    """

    venue: Venue
    queue: ReplayingQueue
    _issuers: dict[tuple[bytes, ...], Issuer] = field(default_factory=dict)

    def sign(
        self,
        action: ActionName,
        arguments: Arguments = NOTHING,
        *,
        by: Sequence[Signer],
        device: DeviceId = PLUG,
        hub: HubId = HUB,
        valid_for: timedelta = MINUTES,
        operation: str | None = None,
        clock: Clock | None = None,
    ) -> SignedCommand:
        """Sign a command with some keys, for the hub's present epoch."""
        signing = tuple(key.public for key in by)
        issuer = self._issuers.setdefault(signing, Issuer(by, ProvenClock(SystemTime())))
        issuer = issuer if clock is None else Issuer(by, clock)
        return issuer.sign(
            Intent(
                hub=hub,
                epoch=self.venue.cloud.epoch,
                devices=[device],
                action=action,
                arguments=arguments,
                valid_for=valid_for,
                operation=None if operation is None else Operation(operation),
            )
        )

    def deliver(self, *envelopes: bytes, times: int = 1) -> None:
        """Lend envelopes to the hub, each so often, and wait until it has judged them."""
        for envelope in envelopes:
            self.queue.lend(envelope, times=times)
        self.queue.wait_until_taken()

    def ended(self, order: SignedCommand, *, within: float = 60.0) -> tuple[Outcome, Reason | None]:
        """How a command ended; there is one receipt of it at the cloud, and no second one."""
        cloud = self.venue.cloud
        wait_until(lambda: bool(cloud.receipts(order.command.id)), "the command's receipt", within=within)
        [told] = cloud.receipts(order.command.id)
        reason = told.data.get("reason")
        return Outcome(str(told.data["outcome"])), None if reason is None else Reason(str(reason))

    def stands(self, command: CommandId) -> list[tuple[str, str | None]]:
        """State and reason of a command in the inbox, for each of its rows."""
        rows = query(self.venue.agent.database, "SELECT command, state, reason FROM inbox ORDER BY run")
        return [
            (str(state), None if reason is None else str(reason))
            for which, state, reason in rows
            if which == command
        ]

    def waits_for_approval(self, order: SignedCommand) -> bool:
        """Whether it is held until somebody agrees, and nothing was sent."""
        return self.stands(order.command.id) == [("held", "needs_approval")]

    def effects(self) -> int:
        """How often any plug has done anything for a command."""
        return sum(
            line.what is What.EFFECT and line.details["cause"] == "command" for line in self.venue.journal()
        )

    def contents(self) -> dict[str, Rows]:
        """What would be another if anything had been done: rows, versions, effects."""
        found = {name: query(self.venue.agent.database, sql) for name, sql in _TABLES.items()}
        return found | {"effects": [(self.effects(),)]}

    def refusals(self, kind: str) -> list[tuple[str, str]]:
        """Subject and reason of the refusals of a kind in the audit trail."""
        rows = query(
            self.venue.agent.database,
            "SELECT kind, subject, detail ->> 'reason' FROM audit ORDER BY number",
        )
        return [(str(subject), str(reason)) for which, subject, reason in rows if which == kind]

    def works(self, key: Signer) -> None:
        """A command that may be done is done: the hub has not been talked into refusing everything."""
        before = self.venue.effects(PLUG, ActionName.POWER)
        good = self.sign(ActionName.POWER, {"on": before % 2 == 0}, by=[key])
        self.deliver(good.envelope)
        assert self.ended(good) == (Outcome.SUCCEEDED, None)
        assert self.venue.effects(PLUG, ActionName.POWER) == before + 1


def signatures_of(envelope: bytes) -> Envelope:
    """An envelope, taken apart."""
    return decode(Envelope, envelope, limit=len(envelope))


@contextmanager
def in_wrong_hands(
    folder: Path,
    keys: Keys | None = None,
    *,
    plugs: int = 1,
    prepare: Callable[[Venue], None] | None = None,
) -> Iterator[Hands]:
    """A venue with an agent that runs, and a queue that lends what it is given.

    Whatever was tried, at its end the agent stops in order and the audit trail is whole.

    Args:
        folder: for all files.
        keys: who signs.
        plugs: how many there are.
        prepare: called before the agent starts.
    """
    port = free_port()
    with (
        Venue(folder, plugs=plugs, cloud_port=port, keys=keys) as venue,
        ReplayingQueue(venue.server, port) as queue,
    ):
        if prepare is not None:
            prepare(venue)
        venue.open()
        wait_until(
            lambda: query(venue.agent.database, _STATE) == [(plugs,)], "all that the plugs say of themselves"
        )
        yield Hands(venue, queue)
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None
