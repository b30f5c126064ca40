"""Whether the cloud can be used, for health; what kind of failure it is decides what to do (SPEC O5)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.store_health import in_words
from edgeagent.flows.uplink import UplinkState
from edgeagent.ports.links import Trouble

LONG: Final = timedelta(hours=1)
"""How long it may fail before that is critical."""
ADVICE: Final[Mapping[Trouble, str]] = {
    Trouble.UNREACHABLE: "check the network, the address in [cloud] url, and the proxy",
    Trouble.TLS: "check the hub's clock and [cloud] ca_file",
    Trouble.TLS_EXPIRED: "the cloud has to renew its certificate; is the hub's clock right (timedatectl)?",
    Trouble.CLOCK: "the hub's clock is behind: timedatectl, or start a time service; it goes on by itself",
    Trouble.LOGIN: "check the token in [cloud] token_file; where there is none: sudo edgeagent setup check",
    Trouble.CAPTIVE_PORTAL: "something between hub and cloud answers in its place: log in there",
    Trouble.BUSY: "the cloud asked to wait; nothing to do",
    Trouble.BROKEN_ANSWER: "what answers at [cloud] url is not the queue, or is cut off on the way",
}
"""What to do about it."""


def cloud_check(state: UplinkState | None, boot: timedelta) -> Check:
    """Look at the cloud.

    Args:
        state: how what sends events up stands; None without a cloud.
        boot: boot time.
    """
    if state is None:
        return Check(name="cloud", level=Level.OK, summary="not configured: the hub works alone")
    if state.failing_since is None or state.trouble is None:
        return Check(name="cloud", level=Level.OK, summary="events go up")
    lasted = boot - state.failing_since
    return Check(
        name="cloud",
        level=Level.CRITICAL if lasted > LONG else Level.WARNING,
        summary=f"failing for {in_words(lasted)} ({state.trouble}): {state.why}",
        advice=ADVICE[state.trouble],
    )
