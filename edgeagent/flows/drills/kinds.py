"""What there is to be drilled; loaded when one is held."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from edgeagent.contracts.reports.drills import DrillKind
from edgeagent.flows.drills.cuts import crash
from edgeagent.flows.drills.duplicates import duplicate
from edgeagent.flows.drills.letters import dead_letter
from edgeagent.flows.drills.locking import lock
from edgeagent.flows.drills.rig import Rig
from edgeagent.flows.drills.story import Story

DRILLS: Final[Mapping[DrillKind, Callable[[Rig, Story], Awaitable[None]]]] = {
    DrillKind.DEAD_LETTER: dead_letter,
    DrillKind.LOCK: lock,
    DrillKind.CRASH: crash,
    DrillKind.DUPLICATE: duplicate,
}
"""Each kind, told with a rig, into a story."""
