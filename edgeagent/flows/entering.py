"""What is written when a command comes to be worked, as it arrives or after it was held.

One place for both, so that a command that waited for the time or for a signature enters its lane in
exactly the way of one that did not.
"""

import logging
from collections.abc import Mapping
from typing import Final, assert_never

from pydantic import JsonValue

from edgeagent.contracts.actions import Arguments
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.breaker import Scope
from edgeagent.core.gate.verdict import Accept, AddSignatures, Duplicate, Hold, Opened, Refuse, Verdict
from edgeagent.core.work import Ending
from edgeagent.errors import BrokenInvariantError
from edgeagent.flows.bells import Bell
from edgeagent.flows.settling import Ended, Settling
from edgeagent.ids import CommandId, DeviceId
from edgeagent.store import audit, inbox, operations
from edgeagent.store.audit import Act
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import NewCommand
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_LONGEST_TEXT: Final = 64
_COUNTED: Final = frozenset({Reason.BREAKER_OPEN, Reason.TOO_MANY_HELD})


@dataclass(frozen=True, slots=True)
class Admitted:
    """What became of a command that came, on one of its devices.

    Attributes:
        command: its id; None when nothing in it could be believed.
        verdict: the gate's.
        device: the one that is meant; None when nothing in it could be believed.
        trace: the trace that it belongs to; None as before.
    """

    command: CommandId | None
    verdict: Verdict
    device: DeviceId | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Entering:
    """Writes commands into their lanes, and tells of what was decided.

    Attributes:
        settling: ends what is superseded.
        lanes: the bells of whoever works.
    """

    settling: Settling
    lanes: Mapping[Tier, Bell]

    def begin(self, tx: Transaction, new: NewCommand, run: int) -> None:
        """Give a queued command its operation, and end the earlier ones of its slot."""
        self.settling.breakers.taken(tx, Scope(new.issuer, new.action), run)
        if not operations.begin(tx, new, run):
            raise BrokenInvariantError(f"the operation of {new.command} is another's")
        if new.slot is None:
            return
        for row in inbox.earlier_in_slot(tx, new.issuer, new.device, new.slot, new.sequence):
            ending = Ending(outcome=Outcome.SUPERSEDED, reason=Reason.SUPERSEDED, detail=f"by {new.command}")
            self.settling.settle(tx, row, Ended(ending=ending))

    def record(
        self, tx: Transaction, kind: AuditKind, asked: Opened, actor: str, more: dict[str, JsonValue]
    ) -> None:
        """Put on record what was decided of a command on its device."""
        command = asked.command
        detail: dict[str, JsonValue] = {
            "device": asked.device,
            "action": command.action,
            "arguments": _sanitised(command.arguments),
            "operation": command.operation,
            "sequence": command.sequence,
            "sha256": asked.verified.sha256,
            "signers": [*asked.verified.signers],
        }
        act = Act(kind=kind, subject=command.id, actor=actor, detail=detail | more)
        audit.append(tx, [act], self.settling.around.stamp())

    def tell(self, admitted: Admitted) -> None:
        """Count, log and wake."""
        word = type(admitted.verdict).__name__.lower()
        metrics = self.settling.around.metrics
        fields = {"command": admitted.command, "device": admitted.device, "trace": admitted.trace}
        match admitted.verdict:
            case Accept(_, rule):
                self.lanes[rule.tier].ring()
            case Hold():
                # It is to end when its time is over, or to go on when its time has come.
                self.settling.bell.ring()
            case Refuse(reason, detail):
                metrics.commands_refused.labels(reason).inc()
                # What is only counted is not told one by one: a flood of it fills no log (SPEC T9).
                if admitted.command is not None and reason not in _COUNTED:
                    log.warning("command refused", extra=fields | {"reason": reason, "why": detail})
                return
            case Duplicate():
                # Counted, as what nobody known has signed: a flood of it fills no log either (SPEC T9).
                metrics.commands_admitted.labels(word).inc()
                return
            case AddSignatures():
                pass
            case _:
                assert_never(admitted.verdict)
        metrics.commands_admitted.labels(word).inc()
        log.info("command came", extra=fields | {"verdict": word})


def _sanitised(arguments: Arguments) -> dict[str, JsonValue]:
    """Arguments as the trail keeps them: a text printable and not longer than an argument may be."""
    return {
        name: _printable(value[:_LONGEST_TEXT]) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
