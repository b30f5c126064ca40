"""Heat, and the supply of a Raspberry Pi: what spoils cards and slows everything down (SPEC O5).

Bits of ``get_throttled``: 0 under-voltage, 1 frequency capped, 2 throttled, 3 soft limit of temperature; 16
to 19 the same, at any time since boot (raspberrypi.com, vcgencmd).
"""

from typing import Final

from edgeagent.contracts.reports.health import Check, Level, Measure
from edgeagent.flows.machine.kernel import Kernel

HOT: Final = 80.0
"""Degrees Celsius at which a Pi begins to slow down."""
VERY_HOT: Final = 90.0
"""Degrees Celsius at which machines switch themselves off."""
_LOW_VOLTAGE: Final = 1 << 0
_SLOWED: Final = 1 << 1 | 1 << 2 | 1 << 3
_SINCE_BOOT: Final = 16
_SUPPLY: Final = "use the supply and cable that the machine's maker names: low voltage spoils cards"
_COOL: Final = "give it air, a heat sink or a fan, or a cooler place"


def heat_check(kernel: Kernel) -> Check:
    """Look at heat and supply."""
    heat, bits = kernel.heat(), kernel.throttled() or 0
    measures, told = [], "this machine does not tell its temperature"
    if heat is not None:
        measures = [Measure(name="temperature", value=heat, warning=f"{HOT:.0f}", critical=f"{VERY_HOT:.0f}")]
        told = f"{heat:.0f} degrees"
    level, advice = Level.OK, ""
    if bits & _SLOWED or (heat is not None and heat >= HOT):
        level, advice = Level.WARNING, _COOL
    if heat is not None and heat >= VERY_HOT:
        level = Level.CRITICAL
    if bits & _LOW_VOLTAGE:
        level, advice = max(level, Level.WARNING, key=list(Level).index), _SUPPLY
        told = f"{told}; its supply gives too little voltage"
    elif bits >> _SINCE_BOOT & _LOW_VOLTAGE:
        # It is over, and a warning would stand until the next boot.
        told, advice = f"{told}; its supply gave too little voltage since it was started", advice or _SUPPLY
    if bits & _SLOWED:
        told = f"{told}; it is slowed down"
    return Check(name="temperature", level=level, summary=told, advice=advice, measures=measures)
