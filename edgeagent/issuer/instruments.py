"""The queue server's instruments, on one registry that is passed in.

The set of series is bounded: origins beyond the first ``MOST_ORIGINS`` are counted together.
"""

from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, generate_latest

from edgeagent.contracts.reasons import Reason
from edgeagent.issuer.wire import Turn

MOST_ORIGINS: Final = 64
OTHERS: Final = "others"
"""Stands for every origin beyond those."""

_SHOWN: Final = 48


class Given(StrEnum):
    """What came of asking for a certificate."""

    ENROLLED = "enrolled"
    """A hub was certified for a claim code."""
    RENEWED = "renewed"
    """A hub got its next certificate."""
    REFUSED = "refused"
    """The code or the certificate does not count."""
    SLOWED = "slowed"
    """Somebody tries many codes that are none."""


class Instruments:
    """What the producer's gate counts, and who is let in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._taken = Counter(
            "commands_taken", "Commands queued.", namespace="edgeagent_queue", registry=registry
        )
        self._refused = Counter(
            "commands_refused",
            "Commands that the producer's gate refused.",
            ["origin", "reason"],
            namespace="edgeagent_queue",
            registry=registry,
        )
        self._turns = Counter(
            "breaker_turns",
            "Breakers that opened, stayed open or closed.",
            ["turn"],
            namespace="edgeagent_queue",
            registry=registry,
        )
        self._given = Counter(
            "identities",
            "Certificates that hubs asked for.",
            ["came"],
            namespace="edgeagent_queue",
            registry=registry,
        )
        self._origins: set[str] = set()
        for came in Given:
            self._given.labels(came)
        for turn in Turn:
            self._turns.labels(turn)

    def taken(self) -> None:
        """A command was queued."""
        self._taken.inc()

    def refused(self, origin: str, reason: Reason) -> None:
        """A command was refused."""
        shown = origin[:_SHOWN]
        if shown not in self._origins and len(self._origins) >= MOST_ORIGINS:
            shown = OTHERS
        self._origins.add(shown)
        self._refused.labels(shown, reason).inc()

    def turned(self, turn: Turn) -> None:
        """A breaker did something."""
        self._turns.labels(turn).inc()

    def identity(self, came: Given) -> None:
        """Somebody has asked for a certificate."""
        self._given.labels(came).inc()

    def text(self) -> bytes:
        """All of them in the text format of Prometheus."""
        return generate_latest(self._registry)
