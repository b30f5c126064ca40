"""What the hub knows of the time, for health; and what to do where it knows too little (SPEC T5, T6)."""

from edgeagent.clock import ClockSource, Wall
from edgeagent.contracts.reports.health import Check, Level, Measure
from edgeagent.flows.timefloor import TimeFloor


def clock_check(floor: TimeFloor, wall: Wall) -> Check:
    """Look at the clock."""
    behind, past = floor.kernel_behind, floor.clock.floor
    if behind is not None:
        return Check(
            name="clock",
            level=Level.WARNING,
            summary=f"the kernel's synchronised clock says {behind:%Y-%m-%d %H:%M} UTC, "
            f"but {past:%Y-%m-%d %H:%M} UTC is past, by {floor.source}",
            advice="correct the clock, or, if it is right, edgeagent clock reset-floor",
        )
    if wall.source is ClockSource.NONE or wall.error is None:
        return Check(
            name="clock",
            level=Level.WARNING,
            summary="the time is not proven: commands of tiers medium and high wait",
            advice="start a time service (systemd-timesyncd, chrony), let the policy name a time key, "
            "or say what time it is: edgeagent clock confirm",
        )
    error = wall.error.total_seconds()
    return Check(
        name="clock",
        level=Level.OK,
        summary=f"known from {wall.source} within {error:.3f} s",
        measures=[Measure(name="clock_error", value=error, unit="s")],
    )
