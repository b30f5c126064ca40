"""What a broker sends that is no MQTT, and when its session is to be begun afresh for it.

    a topic that no message may have ──> acknowledged and dropped, the connection stays
    a packet that cannot be read ──> connection closed ──again, and again──> session begun afresh

A broker that keeps a session sends what was not acknowledged over each new connection. What cannot be read
cannot be acknowledged either, so it would end one connection after the other for ever, and everything behind
it would never come. Begun afresh, the broker forgets it, and with it whatever else it still held for us:
that is told (MQTT 5 section 3.1.2.4). So it is for nothing else: a broker that says goodbye, whatever its
reason, has sent nothing that cannot be read.
"""

from datetime import timedelta
from typing import Final

from edgeagent.ports.links import LinkError, Trouble

ENOUGH: Final = 3
"""How many connections in a row it may end."""

_NEVER_IN_A_TOPIC: Final = frozenset("+#\0\N{REPLACEMENT CHARACTER}")


def is_topic(topic: str) -> bool:
    """Whether a message may have this topic (MQTT 5 section 4.7): not empty, no wildcard, no NUL, UTF-8."""
    return bool(topic) and _NEVER_IN_A_TOPIC.isdisjoint(topic)


class UnreadableError(LinkError):
    """The broker sent what cannot be read."""

    def __init__(self, what: str) -> None:
        super().__init__(Trouble.BROKEN_ANSWER, what)


class Poison:
    """What of a session was poison.

    Attributes:
        last: boot time of the last; None since the start of the agent.
        topics: how many messages had a topic that no message may have.
        cleared: how often the session was begun afresh.
    """

    def __init__(self) -> None:
        self.last: timedelta | None = None
        self.topics = 0
        self.cleared = 0
        self._in_a_row = 0

    @property
    def is_enough(self) -> bool:
        """Whether the next connection is to begin the session afresh."""
        return self._in_a_row >= ENOUGH

    def came(self, topics: int, now: timedelta) -> None:
        """Note messages whose topic no message may have."""
        if topics:
            self.topics += topics
            self.last = now

    def ended(self, now: timedelta) -> None:
        """Note that a connection ended by something that cannot be read."""
        self.last = now
        self._in_a_row += 1

    def stood_long(self) -> None:
        """Note that a connection stood for long, whatever has ended it: what follows is a new story."""
        self._in_a_row = 0

    def begun_afresh(self) -> None:
        """Note that the broker has forgotten the session."""
        self.cleared += 1
        self._in_a_row = 0
