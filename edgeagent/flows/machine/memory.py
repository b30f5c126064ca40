"""Memory: what the agent holds, what its unit may have, what the machine has left (SPEC O5, H7)."""

from typing import Final

from edgeagent.contracts.reports.health import Check, Level, Measure
from edgeagent.flows.machine.kernel import Group, Kernel

_MEBIBYTE: Final = 1024 * 1024
LARGE: Final = 128 * _MEBIBYTE
"""More than this the agent does not need: half of what its unit may have, twice what it has at work."""
_LEAST: Final = 48 * _MEBIBYTE
_NEARLY: Final = 0.9
_ADVICE: Final = {
    "machine": "ps aux --sort=-rss | head: something else takes it",
    "unit": "edgeagent support-bundle, then systemctl restart edgeagent; it goes on where it was",
}


def memory_check(kernel: Kernel, *, own: bool = True) -> Check:
    """Look at the memory.

    Args:
        kernel: tells of it.
        own: whether this process is the agent; else only the machine is looked at.
    """
    resident, group = (kernel.resident(), kernel.group()) if own else (None, None)
    machine = kernel.memory()
    measures, told, wrong = [], [], ""
    if resident is not None:
        measures.append(Measure(name="memory_resident", value=resident, unit="B", warning=str(LARGE)))
        told.append(f"the agent holds {resident // _MEBIBYTE} MiB")
        wrong = "unit" if resident > LARGE else ""
    if group is not None and group.most is not None:
        measures.append(Measure(name="memory_unit", value=group.used, unit="B", warning=_near(group.most)))
        told.append(f"its unit {group.used // _MEBIBYTE} of {group.most // _MEBIBYTE} MiB")
        wrong = "unit" if group.used > group.most * _NEARLY else wrong
    if group is not None and group.killed:
        told.append(_killed(group))
        wrong = wrong or "unit"
    if machine is not None:
        measures.append(Measure(name="memory_free", value=machine[0], unit="B", warning=f"{_LEAST}:"))
        told.append(f"{machine[0] // _MEBIBYTE} of {machine[1] // _MEBIBYTE} MiB are free on the machine")
        wrong = "machine" if machine[0] < _LEAST else wrong
    return Check(
        name="memory",
        level=Level.WARNING if wrong else Level.OK,
        summary="; ".join(told) or "the kernel does not tell",
        advice=_ADVICE.get(wrong, ""),
        measures=measures,
    )


def _killed(group: Group) -> str:
    return f"{group.killed} processes of it were killed for want of memory"


def _near(most: int) -> str:
    return str(int(most * _NEARLY))
