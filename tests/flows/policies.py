"""Policies for tests, signed."""

from datetime import datetime, timedelta
from typing import Literal

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import POLICY_TYPE, ActionRule, Policy, Role, RoleKind, Tier
from edgeagent.core.envelope import sign
from edgeagent.ids import HubId
from tests.support.clocks import NOON
from tests.support.keys import MemoryKey


def signed_policy(
    signer: MemoryKey,
    version: int = 1,
    *,
    hubs: frozenset[HubId] | Literal["*"] = "*",
    time_key: MemoryKey | None = None,
    lasts: timedelta = timedelta(days=365),
    issued_at: datetime = NOON,
) -> bytes:
    """The envelope of a policy that lets somebody switch things on and off.

    Args:
        signer: whose policy it is.
        version: of it.
        hubs: for whom.
        time_key: whose word on the time counts.
        lasts: how long it is good.
        issued_at: when it was issued.
    """
    desk = MemoryKey()
    keys, roles = {"desk": desk.public.hex()}, {"operators": _role(RoleKind.COMMAND, "desk")}
    if time_key is not None:
        keys["clock"] = time_key.public.hex()
        roles["clocks"] = _role(RoleKind.TIME, "clock")
    policy = Policy(
        version=version,
        hubs=hubs,
        issued_at=issued_at,
        expires_at=issued_at + lasts,
        keys=keys,
        roles=roles,
        actions={ActionName.POWER: ActionRule(tier=Tier.LOW)},
    )
    return sign(encode(policy), POLICY_TYPE, [signer])


def _role(kind: RoleKind, key: str) -> Role:
    return Role(kind=kind, keys=frozenset({key}), actions="*", devices="*")
