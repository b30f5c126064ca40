"""Whether a file may be installed: only what a signed list names by id and sha256 (SPEC V3).

Never by an address. The list is the policy's own. It is asked again right before the act: an approval that
was taken back stops what was let in.
"""

from typing import Final

from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.gate.verdict import Refuse
from edgeagent.errors import MalformedError
from edgeagent.ids import artifact_id, digest

_DIGITS: Final = 12


def unapproved(command: Command, policy: Policy) -> Refuse | None:
    """Why a command's artifact is not installed; None where it names none, or an approved one.

    Arguments that no action can have are left to whoever checks arguments.
    """
    named, given = command.arguments.get("artifact"), command.arguments.get("digest")
    if not isinstance(named, str) or not isinstance(given, str):
        return None
    try:
        artifact, sha256 = artifact_id(named), digest(given)
    except MalformedError:
        return None
    approved = policy.artifacts.get(artifact)
    if approved is None:
        return Refuse(Reason.ARTIFACT_NOT_APPROVED, f"no file is approved as {artifact}")
    if sha256 in approved:
        return None
    return Refuse(Reason.ARTIFACT_NOT_APPROVED, f"{sha256[:_DIGITS]}… is not approved as {artifact}")
