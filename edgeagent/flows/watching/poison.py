"""Whether the broker sends what no broker may send, and what that has cost (SPEC M6, R8)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.ports.links import LinkState

LASTS: Final = timedelta(hours=1)
"""How long after the last one it is told."""


def poison_check(links: Mapping[Session, LinkState], boot: timedelta) -> Check:
    """Look at what both sessions have met.

    Args:
        links: how they stand.
        boot: boot time.
    """
    met = [
        f"{session}: {_words(link)}"
        for session, link in links.items()
        if link.poisoned is not None and boot - link.poisoned <= LASTS
    ]
    if not met:
        return Check(name="broker-sends", level=Level.OK, summary="the broker sends what MQTT allows")
    return Check(
        name="broker-sends",
        level=Level.WARNING,
        summary="; ".join(met),
        advice="find out what stands between hub and broker, or update the broker; the log has the times",
    )


def _words(link: LinkState) -> str:
    """What a session has met since the start."""
    words = ["the broker sends what is no MQTT"]
    if link.unfit:
        words.append(f"{link.unfit} messages with a topic that none may have were dropped")
    if link.cleared:
        words.append(f"begun afresh {link.cleared} times, and what the broker still held is lost")
    return ", ".join(words)
