"""How long devices are locked, by family and action: what leases are made of (SPEC L7).

Kept in memory: what a restart forgets is seen again soon, and until then the profile's word is taken.
"""

from datetime import timedelta

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.lease import ANY, Holds, Terms, length_for
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work: what takes about as long wherever it is done.

    Attributes:
        profile: the family.
        action: what is done.
    """

    profile: str
    action: ActionName


class HoldTimes:
    """The last holds of every kind of work. There are as many kinds as families and actions."""

    def __init__(self) -> None:
        self._holds: dict[Kind, Holds] = {}
        self._declared: dict[Kind, timedelta] = {}

    def add(self, kind: Kind, length: timedelta) -> None:
        """Note for how long a device was locked."""
        self._holds.setdefault(kind, Holds()).add(length)

    def terms(self, device: CompiledDevice, action: ActionName, arguments: Arguments) -> Terms:
        """Under which terms a device is locked for an action; what it cannot do has those of any."""
        try:
            work = device.work(action, arguments)
        except MalformedError:
            return ANY
        kind = Kind(device.profile.id, action)
        self._declared[kind] = max(work.lasts, self._declared.get(kind, work.lasts))
        holds = self._holds.get(kind)
        return Terms(length_for(work.lasts, None if holds is None else holds.p95), work.parent)

    def check(self) -> Check:
        """Whether work takes longer than its profile says, for health."""
        slow = [
            f"{kind.action} of {kind.profile} takes {p95.total_seconds():.0f} s, its lease is "
            f"{length_for(declared, None).total_seconds():.0f} s"
            for kind, declared in self._declared.items()
            if (holds := self._holds.get(kind)) is not None
            and (p95 := holds.p95) is not None
            and p95 > length_for(declared, None) / 2
        ]
        if not slow:
            return Check(name="leases", level=Level.OK, summary="work is done well within its leases")
        return Check(
            name="leases",
            level=Level.WARNING,
            summary=f"19 of 20 times work takes more than half of its declared lease: {'; '.join(slow)}",
            advice="the lease was lengthened; see why the device is slow, or raise within in its profile",
        )
