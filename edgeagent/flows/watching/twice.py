"""Whether what was to happen once has happened twice (SPEC I2, O4).

An outcome that stayed unknown lets an absolute action be asked for again under the same operation. When the
first one turns out to have worked after all, both did, or may have.
"""

from typing import Final

from edgeagent.contracts.alerts import Alert
from edgeagent.core.operation import OperationState, operation_key
from edgeagent.core.work import Claim
from edgeagent.flows.alerts import tell_at_once
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import operations
from edgeagent.store.database import Transaction

_MAY_HAVE_WORKED: Final = frozenset(
    {OperationState.PROCESSING, OperationState.COMPLETED, OperationState.UNKNOWN}
)


def tell_if_twice(tx: Transaction, around: Surroundings, claim: Claim) -> None:
    """Call for a person if a command that has worked late was not the only one of its operation.

    At most once for each command that is corrected: nothing makes that happen often.
    """
    command = claim.asked.command
    found = operations.find(tx, operation_key(command, claim.device))
    if found is None or found[1] == command.id or found[0] not in _MAY_HAVE_WORKED:
        return
    words = f"{command.id} has worked late, and {found[1]} of the same operation is {found[0]}"
    tell_at_once(tx, around, Alert.PROCESSED_TWICE, words, claim.device)
