"""What devices share, such as a bridge or a radio, as one device's values name it."""

from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.lease import Parent
from edgeagent.core.profile.parameters import Scope


def parent_of(profile: DeviceProfile, occupies: str | None, scope: Scope) -> Parent | None:
    """What is occupied beside the device; None when nothing is, or the device shares nothing."""
    if occupies is None:
        return None
    shared = profile.shared[occupies]
    which = scope.values.get(shared.by)
    return None if which is None else Parent(f"{occupies}/{which}", shared.most)
