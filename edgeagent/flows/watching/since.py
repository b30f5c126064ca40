"""Since when something has been seen without a break; in memory, from one look to the next."""

from collections.abc import Hashable, Iterable
from datetime import timedelta
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Since(Generic[K]):
    """Remembers for each thing when it was seen first; what is not seen at a look is forgotten."""

    def __init__(self) -> None:
        self._first: dict[K, timedelta] = {}

    def look(self, seen: Iterable[K], now: timedelta) -> dict[K, timedelta]:
        """Note what is seen now.

        Args:
            seen: everything that is there.
            now: boot time.

        Returns:
            For how long each has been there.
        """
        self._first = {key: self._first.get(key, now) for key in seen}
        return {key: now - first for key, first in self._first.items()}
