"""A part that can be set: a relay, a lamp, a motor. It knows what is true and what it tells.

The two differ only under the fault ``wrong_echo``: ``carry_out`` then makes a lie, which lasts for all
that is said about this command and no longer.
"""

from collections.abc import Mapping
from typing import Generic, Protocol, Self, TypeVar

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Effect


class State(Protocol):
    """An immutable state of a part."""

    def values(self) -> Mapping[str, Json]:
        """It in the journal's words."""
        ...

    def wrong(self, before: Self) -> Self:
        """What a liar tells instead when this state has followed ``before``; never this state."""
        ...


S = TypeVar("S", bound=State)


class Part(Generic[S]):
    """One part with its state.

    Args:
        board: the hardware.
        name: such as ``switch:0``.
        state: what it is at first.
    """

    def __init__(self, board: Board, name: str, state: S) -> None:
        self.name = name
        self._board = board
        self._true = state
        self._lie: S | None = None

    @property
    def true(self) -> S:
        """What is so."""
        return self._true

    @property
    def told(self) -> S:
        """What is said to be so."""
        return self._true if self._lie is None else self._lie

    @property
    def lying(self) -> bool:
        """Whether the two differ."""
        return self._lie is not None

    def carry_out(self, action: str, state: S) -> None:
        """Make ``state`` true, and note the effect."""
        before, self._true = self._true, state
        changed = before != state
        self._board.carried_out(Effect(action, self.name, before.values(), state.values(), changed))
        if not self._board.honest:
            self._lie = state.wrong(before)

    def values(self) -> Mapping[str, Json]:
        """What is true of it, in the journal's words."""
        return self._true.values()

    def come_clean(self) -> None:
        """Tell the truth again."""
        self._lie = None
