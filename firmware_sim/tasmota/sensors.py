"""What a Tasmota measures: the objects inside ``tele/…/SENSOR`` and ``STATUS10``.

A device without sensors says no ``SENSOR`` at all.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import ClassVar, Final, Protocol

from firmware_sim.fields import Json
from firmware_sim.walk import Meter, Walk

_MAGNUS: Final = (17.62, 243.12)


class Sensor(Protocol):
    """One driver."""

    @property
    def name(self) -> str:
        """Its key."""
        ...

    def measure(self, hours: float, load: float) -> None:
        """Measure anew; ``load`` is the share of the full load that runs."""
        ...

    def read(self, *, fahrenheit: bool, periodic: bool) -> Mapping[str, Json]:
        """Its object; ``periodic`` in telemetry, not in an answer."""
        ...


class Energy:
    """``ENERGY``: totals in kWh, figures of the moment in W, VA, var, V, A.

    ``Period`` (Wh since the last telemetry) is in telemetry only. Figures of the moment are whole
    numbers, as delivered (``WattRes 0``).

    Args:
        seed: names the meter.
    """

    name: ClassVar[str] = "ENERGY"

    def __init__(self, seed: str) -> None:
        self._meter = Meter(f"{seed}/energy")
        self._before = 0.0

    def measure(self, hours: float, load: float) -> None:
        """Let the meter run."""
        self._before = self._meter.shown.kilowatt_hours
        self._meter.advance(hours=hours, share=load)

    def switched(self, load: float) -> None:
        """The load was switched."""
        self._meter.switched(load)

    def read(self, *, fahrenheit: bool, periodic: bool) -> Mapping[str, Json]:  # noqa: ARG002 - no temperature
        """Its object."""
        shown = self._meter.shown
        apparent = shown.volts * shown.amperes
        period: Mapping[str, Json] = {}
        if periodic:
            period = {"Period": round((shown.kilowatt_hours - self._before) * 1000)}
        return {
            "TotalStartTime": "2025-11-01T00:00:00",
            "Total": round(shown.kilowatt_hours, 3),
            "Yesterday": 0.0,
            "Today": round(shown.kilowatt_hours, 3),
            **period,
            "Power": round(shown.watts),
            "ApparentPower": round(apparent),
            "ReactivePower": round(max(apparent**2 - shown.watts**2, 0) ** 0.5),
            "Factor": shown.factor,
            "Voltage": round(shown.volts),
            "Current": shown.amperes,
        }


class Climate:
    """``SI7021``: temperature and humidity, and the dew point that follows from them.

    Args:
        seed: names the walks.
    """

    name: ClassVar[str] = "SI7021"

    def __init__(self, seed: str) -> None:
        self._celsius = Walk(f"{seed}/celsius", 21.0, step=0.2, low=16.0, high=28.0)
        self._humidity = Walk(f"{seed}/humidity", 45.0, step=0.8, low=25.0, high=75.0)

    def measure(self, hours: float, load: float) -> None:  # noqa: ARG002 - the air does not ask
        """Take a step."""
        self._celsius.advance()
        self._humidity.advance()

    def read(self, *, fahrenheit: bool, periodic: bool) -> Mapping[str, Json]:  # noqa: ARG002 - always the same
        """Its object, in the unit of ``TempUnit`` beside it."""
        celsius, humidity = self._celsius.value, self._humidity.value
        return {
            "Temperature": _in_unit(celsius, fahrenheit=fahrenheit),
            "Humidity": round(humidity, 1),
            "DewPoint": _in_unit(_dew_point(celsius, humidity), fahrenheit=fahrenheit),
        }


class Sensors:
    """All that one device measures.

    Args:
        drivers: each with its key.
    """

    def __init__(self, drivers: Sequence[Sensor]) -> None:
        self._drivers = drivers
        self.names = [driver.name for driver in drivers]

    @property
    def metered(self) -> bool:
        """Whether there is an energy meter."""
        return Energy.name in self.names

    def measure(self, hours: float, load: float) -> None:
        """Measure anew; ``load`` is the share of the full load that runs."""
        for driver in self._drivers:
            driver.measure(hours, load)

    def switched(self, load: float) -> None:
        """The load was switched."""
        for driver in self._drivers:
            if isinstance(driver, Energy):
                driver.switched(load)

    def read(self, time: str, *, fahrenheit: bool, periodic: bool) -> dict[str, Json]:
        """All objects, behind the time.

        Args:
            time: as every long answer has it.
            fahrenheit: SetOption8.
            periodic: in telemetry rather than in an answer.
        """
        sensed: dict[str, Json] = {"Time": time}
        for driver in self._drivers:
            sensed[driver.name] = driver.read(fahrenheit=fahrenheit, periodic=periodic)
        if Climate.name in self.names:
            sensed["TempUnit"] = "F" if fahrenheit else "C"
        return sensed


def _in_unit(celsius: float, *, fahrenheit: bool) -> float:
    return round(celsius * 1.8 + 32 if fahrenheit else celsius, 1)


def _dew_point(celsius: float, humidity: float) -> float:
    """By the Magnus formula."""
    a, b = _MAGNUS
    gamma = log(humidity / 100) + a * celsius / (b + celsius)
    return b * gamma / (a - gamma)
