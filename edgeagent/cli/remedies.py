"""What to type after a command came to nothing, or waits: by the reason on record."""

from collections.abc import Mapping
from typing import Final

from edgeagent.cli.printing import safe
from edgeagent.contracts.reasons import Reason

_NEXT: Final[Mapping[Reason, str]] = {
    Reason.NO_POLICY: "[policy] in the configuration; edgeagent issuer policy sign",
    Reason.POLICY_EXPIRED: "edgeagent policy show; a later one comes by edgeagent issuer policy publish",
    Reason.WRONG_EPOCH: "edgeagent status; whoever signed it types edgeagent issuer command resign",
    Reason.CLOCK_UNSURE: "edgeagent clock show; edgeagent clock confirm",
    Reason.NOT_YET_VALID: "edgeagent clock show",
    Reason.NEEDS_APPROVAL: "another person types edgeagent commands approve {command} {device}",
    Reason.DEVICE_UNKNOWN: "edgeagent devices list",
    Reason.NOT_ALLOWED: "edgeagent policy explain {action} {device}",
    Reason.BANNED: "edgeagent policy show",
    Reason.ARTIFACT_NOT_APPROVED: "edgeagent policy show",
    Reason.STOPPED: "edgeagent hub stops; edgeagent hub resume KIND",
    Reason.UNSUPPORTED_ACTION: "edgeagent devices show {device}",
    Reason.BAD_ARGUMENTS: "edgeagent devices show {device}",
    Reason.CANNOT_CONFIRM: "edgeagent policy explain {action} {device}",
    Reason.ARTIFACT_UNSIGNED: "edgeagent artifacts list",
    Reason.ARTIFACT_REVOKED: "edgeagent artifacts list",
    Reason.ARTIFACT_MISFIT: "edgeagent artifacts list; edgeagent devices show {device}",
    Reason.ARTIFACT_TOO_OLD: "edgeagent artifacts list",
    Reason.SERVES_NO_FILES: "[firmware] in the configuration: listen",
    Reason.ROLLOUT_WINDOW: "edgeagent firmware plan {command}",
    Reason.ROLLOUT_CANARY: "edgeagent firmware status {command}",
    Reason.ROLLOUT_LIMIT: "edgeagent firmware status",
    Reason.ROLLOUT_PAUSED: "edgeagent firmware status {command}",
    Reason.ROLLOUT_STOPPED: "edgeagent firmware status {command}",
    Reason.UNFIT_STATE: "edgeagent devices show {device}",
    Reason.BREAKER_OPEN: "edgeagent breakers list; edgeagent breakers reset SCOPE --reason TEXT",
    Reason.STALE: "edgeagent devices show {device}",
    Reason.OPERATION_RUNNING: "edgeagent commands list",
    Reason.OUTCOME_UNKNOWN: "look at the device, and edgeagent devices show {device}",
    Reason.DEVICE_BUSY: "edgeagent locks list",
    Reason.DEVICE_OFFLINE: "edgeagent devices show {device}",
    Reason.BROKER_AWAY: "edgeagent health",
    Reason.LEASE_LOST: "edgeagent commands trace {command}; edgeagent health",
    Reason.DEVICE_REFUSED: "edgeagent devices show {device}; edgeagent dead-letters list",
    Reason.NO_CONFIRMATION: "look at the device, and edgeagent devices show {device}",
    Reason.OTHER_VALUE: "edgeagent devices show {device}",
    Reason.BROKER_REFUSED: "edgeagent health",
}


def remedy(reason: Reason | None, *, device: str, action: str, command: str) -> str:
    """What to type next; empty where nothing is to be done."""
    known = "" if reason is None else _NEXT.get(reason, "")
    return safe(known.format(device=device, action=action, command=command))
