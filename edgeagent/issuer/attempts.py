"""How often somebody may try a claim code that is none: seldom, and then later.

A secret of 128 bits is not found by trying. What is bounded here is the work that tries make, and the lines
that they write. Addresses beyond those that are remembered share one account.
"""

from collections import OrderedDict, deque
from datetime import timedelta
from typing import Final

WINDOW: Final = timedelta(minutes=1)
"""How long a wrong try counts."""
MOST: Final = 5
"""Wrong tries of one address within that; then it is asked to wait."""
MOST_OF_ALL: Final = 100
"""Wrong tries of everybody within that."""

_REMEMBERED: Final = 1024
_OTHERS: Final = "others"


class Attempts:
    """Wrong tries, by address."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[timedelta]] = OrderedDict()
        self._all: deque[timedelta] = deque(maxlen=MOST_OF_ALL)

    def wait(self, address: str, now: timedelta) -> timedelta:
        """How long an address is to wait before its next try; nothing for most.

        Args:
            address: who tries.
            now: boot time.
        """
        of_all = self._all[0] + WINDOW - now if len(self._all) == MOST_OF_ALL else timedelta(0)
        own = self._of.get(self._account(address))
        of_one = own[0] + WINDOW - now if own is not None and len(own) == MOST else timedelta(0)
        return max(of_all, of_one, timedelta(0))

    def failed(self, address: str, now: timedelta) -> None:
        """Note a wrong try."""
        self._all.append(now)
        account = self._account(address)
        own = self._of.setdefault(account, deque(maxlen=MOST))
        own.append(now)
        self._of.move_to_end(account)

    def _account(self, address: str) -> str:
        if address in self._of:
            return address
        return address if len(self._of) < _REMEMBERED else _OTHERS

    def forget(self, now: timedelta) -> None:
        """Drop the addresses whose tries count no more."""
        while self._of:
            address, tries = next(iter(self._of.items()))
            if tries[-1] + WINDOW > now:
                return
            del self._of[address]
