"""What a Tasmota switches: relays, and a lamp that counts as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Piece
from firmware_sim.part import Part


class Output(Protocol):
    """Something with a ``POWER``."""

    @property
    def piece(self) -> Piece:
        """What can be set in it."""
        ...

    @property
    def can(self) -> Sequence[str]:
        """What it offers, in the journal's words."""
        ...

    @property
    def power(self) -> bool:
        """Whether it is on."""
        ...

    @property
    def told_power(self) -> bool:
        """Whether it says that it is on."""
        ...

    def switch(self, action: str, *, power: bool) -> None:
        """Switch it."""
        ...

    def identify(self) -> None:
        """Blink: the output is switched to and fro and ends as it was."""
        ...


@dataclass(frozen=True, slots=True)
class RelayState:
    """A relay: closed is on."""

    power: bool

    def values(self) -> Mapping[str, Json]:
        """In the journal's words."""
        return {"power": self.power}

    def wrong(self, _before: "RelayState") -> "RelayState":
        """The other one."""
        return RelayState(not self.power)


class Relay:
    """One relay.

    Args:
        board: the hardware.
        name: such as ``POWER2``.
    """

    can: ClassVar[Sequence[str]] = ("power", "toggle", "identify")

    def __init__(self, board: Board, name: str) -> None:
        self.piece = Part(board, name, RelayState(power=False))

    @property
    def power(self) -> bool:
        """Whether it is on."""
        return self.piece.true.power

    @property
    def told_power(self) -> bool:
        """Whether it says that it is on."""
        return self.piece.told.power

    def switch(self, action: str, *, power: bool) -> None:
        """Switch it."""
        self.piece.carry_out(action, RelayState(power))

    def identify(self) -> None:
        """Click."""
        self.piece.carry_out("identify", self.piece.true)
