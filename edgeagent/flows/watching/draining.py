"""Whether what waits for the cloud goes up, where there is a cloud (SPEC Q7)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.uplink import UplinkState
from edgeagent.flows.watching.since import Since
from edgeagent.store.outbox import Depth

STILL: Final = timedelta(minutes=5)
"""How long the oldest event of a stream may be the oldest."""


class DrainWatch:
    """Looks at the outbox; remembers since when the oldest of each stream has been the oldest."""

    def __init__(self) -> None:
        self._oldest: Since[tuple[Stream, int]] = Since()

    def check(self, depths: Mapping[Stream, Depth], uplink: UplinkState | None, boot: timedelta) -> Check:
        """Look at all streams.

        Args:
            depths: how much of each waits.
            uplink: how it stands; None without a cloud.
            boot: boot time.
        """
        oldest = [(name, depth.oldest) for name, depth in depths.items() if depth.oldest is not None]
        lasted = self._oldest.look(oldest, boot)
        still = [name for (name, _), length in lasted.items() if length > STILL]
        if uplink is None or not still:
            word = "there is no cloud to go to" if uplink is None else "what waits for the cloud goes up"
            return Check(name="draining", level=Level.OK, summary=word)
        waiting = ", ".join(f"{name} ({depths[name].events})" for name in still)
        failing = uplink.failing_since is not None
        return Check(
            name="draining",
            level=Level.WARNING,
            summary=f"nothing has gone up for more than 5 min of: {waiting}",
            advice="see the check cloud"
            if failing
            else "the link works: see the log for uplink and outbox; edgeagent outbox stats",
        )
