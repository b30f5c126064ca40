"""Sensors: seeded random walks, so that a run can be repeated value by value.

Each walk has its own generator, named by what it measures, and takes one step for each report, however
much time has passed: the same seed gives the same sequence on any machine.
"""

from dataclasses import dataclass
from random import Random


class Walk:
    """A value that wanders within bounds.

    Args:
        seed: names the walk; the same name, the same steps.
        start: the first value.
        step: the longest step.
        low: the least value.
        high: the greatest.
    """

    def __init__(self, seed: str, start: float, *, step: float, low: float, high: float) -> None:
        self._random = Random(seed)
        self._step = step
        self._low = low
        self._high = high
        self.value = start

    def advance(self) -> float:
        """Take one step; turn round at a bound."""
        move = self._random.uniform(-self._step, self._step)
        if not self._low <= self.value + move <= self._high:
            move = -move
        self.value += move
        return self.value


@dataclass(frozen=True, slots=True)
class Measured:
    """What a meter shows.

    Attributes:
        watts: active power.
        volts: of the mains.
        amperes: drawn.
        factor: power factor.
        kilowatt_hours: counted since it was made.
    """

    watts: float = 0.0
    volts: float = 230.0
    amperes: float = 0.0
    factor: float = 0.0
    kilowatt_hours: float = 0.0


class Meter:
    """An energy meter behind a relay.

    Args:
        seed: names it.
    """

    def __init__(self, seed: str) -> None:
        self._volts = Walk(f"{seed}/volts", 230.0, step=0.8, low=222.0, high=238.0)
        self._load = Walk(f"{seed}/load", Random(seed).uniform(8.0, 180.0), step=6.0, low=4.0, high=220.0)
        self._factor = 0.92
        self.shown = Measured()

    def advance(self, *, hours: float, share: float) -> None:
        """Measure anew.

        Args:
            hours: how long the load has run since the last time.
            share: of the full load, 0 for off.
        """
        volts, load = self._volts.advance(), self._load.advance()
        self.shown = self._at(volts, load * share, self.shown.kilowatt_hours + load * share * hours / 1000)

    def switched(self, share: float) -> None:
        """The load was switched; only the present figures change."""
        self.shown = self._at(self._volts.value, self._load.value * share, self.shown.kilowatt_hours)

    def _at(self, volts: float, watts: float, total: float) -> Measured:
        amperes = watts / (volts * self._factor)
        return Measured(
            watts=round(watts, 1),
            volts=round(volts, 1),
            amperes=round(amperes, 3),
            factor=self._factor if watts else 0.0,
            kilowatt_hours=total,
        )
