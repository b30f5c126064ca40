"""The machines that a package is built for, and what differs between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PYTHONS: Final = ("3.11", "3.13")
"""Of Debian 12 and 13: one package serves both, since compiled modules carry their Python in their names."""

LEFT_OUT: Final[Mapping[str, str]] = {
    "pycparser": "cffi reads declarations of C with it, which cryptography has done when it was compiled",
    "tzdata": "Debian's own database of zones is there, and Debian's updates renew it",
}
"""Distributions that the agent asks for and the package does without, with the reason."""

_GLIBC: Final = (36, 35, 34, 31, 28, 27, 24, 17)
"""What wheels may ask of the C library: Debian 12 has 2.36."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A kind of machine.

    Attributes:
        name: as Debian calls it.
        machine: as wheels call it.
        depends: what the package needs there besides what it needs everywhere.
        without: distributions that have no wheel for it; ``depends`` has Debian's package of each.
    """

    name: str
    machine: str
    depends: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()

    @property
    def platforms(self) -> list[str]:
        """The tags of wheels that run there."""
        return [f"manylinux_2_{minor}_{self.machine}" for minor in _GLIBC] + [f"manylinux2014_{self.machine}"]


ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    each.name: each
    for each in (
        Architecture("amd64", "x86_64", depends=("libstdc++6",)),
        Architecture("arm64", "aarch64", depends=("libstdc++6",)),
        Architecture("armhf", "armv7l", depends=("python3-cffi-backend",), without=frozenset({"cffi"})),
    )
}
DEFAULT: Final = ("amd64", "arm64")
