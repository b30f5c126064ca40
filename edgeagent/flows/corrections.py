"""A command whose outcome was unknown and that has worked after all (SPEC I2).

Its final state stays; its operation is completed, and a record names the receipt.
"""

import logging

from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.confirmation import Confirmed
from edgeagent.core.operation import OperationState, operation_key
from edgeagent.core.work import Claim
from edgeagent.flows.claims import about, fields_of
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.watching.twice import tell_if_twice
from edgeagent.store import audit, operations, outbox
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent

log = logging.getLogger(__name__)


async def correct(store: Database, around: Surroundings, claim: Claim, confirmed: Confirmed) -> None:
    """Note a confirmation that came after the command's end.

    Raises:
        StorageError: nothing is noted.
    """
    command = claim.asked.command
    fields = {"command": command.id, "device": claim.device, "level": confirmed.level}
    event = NewEvent(Stream.RECORD, EventType.CORRECTED, claim.device, around.event_time(), data_text(fields))
    act = about(claim, AuditKind.COMMAND_CORRECTED, {"level": confirmed.level})

    def note(tx: Transaction) -> None:
        operations.settle(tx, operation_key(command, claim.device), claim.run, OperationState.COMPLETED)
        outbox.append(tx, [event], incarnation=around.origin.incarnation)
        audit.append(tx, [act], around.stamp())
        tell_if_twice(tx, around, claim)

    await store.write(note)
    around.outbox.stored({Stream.RECORD}, 1)
    log.info("outcome corrected", extra=fields_of(claim) | {"level": confirmed.level})
