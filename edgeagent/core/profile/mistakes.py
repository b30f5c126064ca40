"""The mistakes of a profile, each with its place."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgeagent.errors import MalformedError


class Mistakes:
    """Collects mistakes instead of stopping at the first."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Note a MalformedError of the block under its place, and go on after it."""
        try:
            yield
        except MalformedError as why:
            self.found.append(f"{place}: {why}")

    def add(self, place: str, what: str) -> None:
        """Note a mistake."""
        self.found.append(f"{place}: {what}")

    def unless(self, fits: object, place: str, what: str) -> None:
        """Note ``what`` is wrong unless it fits."""
        if not fits:
            self.add(place, what)
