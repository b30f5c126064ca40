"""How many messages the broker sends before it waits for their PUBACKs.

We say at most how many (Receive Maximum); a broker may have a smaller limit of its own for what it sends
(MQTT 5 section 4.9), and tells it to nobody: 20 and 32 are common. Then a commit that waits for more to
come waits in vain, and a linger of 100 ms lets 200 messages a second through where 10,000 could pass.

It shows in how turns end. A broker that waits falls silent at the same count again, and goes on as soon as
it is answered. From then on that many are enough; not for good, since what only looked like a limit would
make every commit a small one.
"""

from typing import Final

# Below, a mistake would cost more than a limit does.
_FEWEST: Final = 8
_LOOK_AGAIN: Final = 2000


class Inflight:
    """What is known of one session's limit.

    Args:
        asked: the Receive Maximum that we sent.
    """

    def __init__(self, asked: int) -> None:
        # Half: the other half is on its way while the commit runs.
        self._half = (asked + 1) // 2
        self._limit: int | None = None
        self._used = 0
        self._stopped_at = 0

    @property
    def enough(self) -> int:
        """So many unacknowledged messages are worth a commit at once."""
        return self._half if self._limit is None else self._limit

    def ended(self, count: int, *, prompt: bool, silent: bool) -> None:
        """Note how a turn ended.

        Args:
            count: its messages.
            prompt: whether the first came as soon as those before had been acknowledged.
            silent: whether nothing more had come for a while when it ended.
        """
        if self._limit is not None:
            self._used += 1
            if count > self._limit or self._used == _LOOK_AGAIN:
                self._limit, self._stopped_at = None, 0
            return
        stopped_at = count if silent and count >= _FEWEST else 0
        if prompt and stopped_at and stopped_at == self._stopped_at:
            self._limit, self._used = stopped_at, 0
        self._stopped_at = stopped_at
