"""Units: what devices use, turned into what readings use, and back.

Standard units of readings: °C, %, W, kWh, V, A, Hz, lx, hPa, dBm, K (of light), s.
"""

from collections.abc import Callable, Mapping
from typing import Final

from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

Convert = Callable[[float], float]

# After a conversion the rest of the binary fraction is noise: 72.5 °F is 22.5 °C, not 22.500000000000004.
_DIGITS: Final = 6

# unit: (what it measures, factor, offset); base = (value + offset) * factor.
_UNITS: Final[Mapping[str, tuple[str, float, float]]] = {
    "°C": ("temperature", 1.0, 0.0),
    "°F": ("temperature", 5 / 9, -32.0),
    "K": ("temperature", 1.0, -273.15),
    "W": ("power", 1.0, 0.0),
    "kW": ("power", 1000.0, 0.0),
    "mW": ("power", 0.001, 0.0),
    "kWh": ("energy", 1.0, 0.0),
    "Wh": ("energy", 0.001, 0.0),
    "Wmin": ("energy", 1 / 60_000, 0.0),
    "Ws": ("energy", 1 / 3_600_000, 0.0),
    "V": ("voltage", 1.0, 0.0),
    "mV": ("voltage", 0.001, 0.0),
    "A": ("current", 1.0, 0.0),
    "mA": ("current", 0.001, 0.0),
    "hPa": ("pressure", 1.0, 0.0),
    "Pa": ("pressure", 0.01, 0.0),
    "kPa": ("pressure", 10.0, 0.0),
    "mmHg": ("pressure", 1.333223874, 0.0),
    "inHg": ("pressure", 33.86388640, 0.0),
    "s": ("time", 1.0, 0.0),
    "ms": ("time", 0.001, 0.0),
    "min": ("time", 60.0, 0.0),
    "h": ("time", 3600.0, 0.0),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear rule: one number is ``factor`` times another plus ``offset``."""

    factor: float
    offset: float

    def forth(self, value: float) -> float:
        """From the one to the other."""
        return round(value * self.factor + self.offset, _DIGITS)

    def back(self, value: float) -> float:
        """From the other to the one."""
        return round((value - self.offset) / self.factor, _DIGITS)


def converter(source: str, target: str) -> Convert | None:
    """How a number in ``source`` becomes one in ``target``.

    Light's colour temperature comes in kelvin or in mired, a million of one over the other.

    Returns:
        None when they are the same.

    Raises:
        MalformedError: one cannot become the other.
    """
    if source == target:
        return None
    if {source, target} == {"mired", "K"}:
        return _reciprocal
    known, wanted = _UNITS.get(source), _UNITS.get(target)
    if known is None or wanted is None or known[0] != wanted[0]:
        raise MalformedError(f"{source!r} cannot become {target!r}")
    _, factor, offset = known
    _, wanted_factor, wanted_offset = wanted

    def convert(value: float) -> float:
        return round((value + offset) * factor / wanted_factor - wanted_offset, _DIGITS)

    return convert


def conversion(unit: str, target: str, *, scale: float = 1.0, offset: float = 0.0) -> Convert | None:
    """From a device's number to one in ``target``: first the scale, then the unit.

    Returns:
        None when they are the same.

    Raises:
        MalformedError: the one unit cannot become the other.
    """
    convert = converter(unit, target)
    if scale == 1 and offset == 0:
        return convert
    first = Scale(scale, offset).forth
    return first if convert is None else lambda value: convert(first(value))


def _reciprocal(value: float) -> float:
    # No light has 0 kelvin or 0 mired: out of any range is what 0 becomes.
    return round(1_000_000 / value, _DIGITS) if value else 0.0
