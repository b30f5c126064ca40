"""People at the hub agree to commands that wait for it (SPEC T7).

What is agreed to is the hash of one payload for one device, which is shown before. The word and its audit
row are one commit. It counts for one run of the command, which is let in once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from edgeagent.contracts.policy import ApprovalRule
from edgeagent.contracts.reports.approvals import ApprovalReport, ApproveRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.breaker import Scope
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.approval import is_same_person
from edgeagent.core.gate.world import Approval
from edgeagent.core.lifecycle import State
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ids import CommandId
from edgeagent.store import approvals, audit, breakers, inbox
from edgeagent.store.approvals import NewApproval
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Row
from edgeagent.values import dataclass

_WAITS: Final = frozenset({State.HELD, State.WAITING})


@dataclass(frozen=True, slots=True)
class Approving:
    """Takes people's word.

    Attributes:
        store: the database.
        trust: the policy, which says what may be approved here.
        around: time.
        tell: called when a command may go on.
    """

    store: Database
    trust: Trust
    around: Surroundings
    tell: Callable[[], None]

    async def approve(self, command: CommandId, request: ApproveRequest, actor: str) -> ApprovalReport:
        """Agree to a command that waits.

        Raises:
            RejectedError: there is none, it does not wait, it is not what was shown, the policy takes no
                such word, or it is that of who typed the command. Nothing was changed.
            StorageError: nothing was stored.
        """
        report = await self.store.write(partial(self._approve, command, request, actor))
        self.tell()
        return report

    def _approve(
        self, command: CommandId, request: ApproveRequest, actor: str, tx: Transaction
    ) -> ApprovalReport:
        row = _waiting(inbox.by_command(tx, command), command, request)
        rule = self._rule(tx, row)
        if is_same_person(row.actor, actor):
            raise RejectedError("whoever typed a command cannot approve it")
        clock = self.around.clock
        until = BootDeadline(clock.boot_id, clock.boot() + rule.good_for)
        approvals.add(
            tx,
            NewApproval(
                sha256=row.sha256,
                device=row.device,
                run=row.run,
                at=self.around.event_time().at,
                approval=Approval(actor, until),
            ),
        )
        act = Act(
            kind=AuditKind.COMMAND_APPROVED,
            subject=row.command,
            actor=actor,
            detail={
                "device": row.device,
                "action": row.action,
                "issuer": row.issuer,
                "sha256": row.sha256,
                "good_for": rule.good_for.total_seconds(),
            },
        )
        audit.append(tx, [act], self.around.stamp())
        return ApprovalReport(
            command=row.command, device=row.device, sha256=row.sha256, by=actor, good_for=rule.good_for
        )

    def _rule(self, tx: Transaction, row: Row) -> ApprovalRule:
        policy = self.trust.policy
        rule = None if policy is None else policy.actions.get(row.action)
        wanted = None if rule is None else rule.approvals
        if (wanted is None or not wanted.at_hub) and breakers.find(
            tx, Scope(row.issuer, row.action)
        ) is not None:
            # Its breaker is not closed: a person's word lets it by (SPEC B2).
            return ApprovalRule(at_hub=True)
        if wanted is None or not wanted.at_hub:
            raise RejectedError(f"the policy takes no approval of {row.action} at the hub")
        return wanted


def _waiting(rows: Sequence[Row], command: CommandId, request: ApproveRequest) -> Row:
    """The command on its device, if it is what was shown and waits."""
    row = next((row for row in rows if row.device == request.device), None)
    if row is None:
        raise UnknownError(f"no command {command} for {request.device} has come")
    if row.sha256 != request.sha256:
        raise RejectedError(f"{command} is not what was shown: its hash is {row.sha256}")
    if row.state not in _WAITS or row.sent:
        raise RejectedError(f"{command} does not wait for approval: it is {row.state}")
    return row
