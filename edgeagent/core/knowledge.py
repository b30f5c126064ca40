"""What is known of a device, and whether that is enough to act on (SPEC C2, C3)."""

from dataclasses import replace
from datetime import timedelta

from edgeagent.core.gate.verdict import Opened
from edgeagent.core.gate.world import World
from edgeagent.core.profile.decode import AVAILABILITY
from edgeagent.core.profile.plan import Needed, Plan
from edgeagent.core.shadow import StateReading, differs
from edgeagent.core.work import Claim
from edgeagent.ids import ReadingName


def decided_on(claim: Claim, world: World) -> set[ReadingName]:
    """The readings on which the issuer decided, and which are not live: the device may be otherwise now."""
    precondition, shadow = claim.asked.command.precondition, world.shadow
    if precondition is None or shadow is None:
        return set()
    is_whole = precondition.version is not None or precondition.etag is not None
    named = shadow.state.keys() - {AVAILABILITY} if is_whole else precondition.readings.keys()
    return {name for name in named if name in shadow.state and shadow.state[name].live_at is None}


def learnt_nothing(claim: Claim, world: World) -> bool:
    """Whether the device, read for what the issuer decided on, has told nothing of it."""
    missed = decided_on(claim, claim.world)
    return bool(missed) and missed <= decided_on(claim, world)


def lacks(plan: Plan | None, world: World, now: timedelta) -> bool:
    """Whether something that the action wants to know is not known, or not freshly enough."""
    return plan is not None and any(
        (held := known(world, needed.reading)) is None
        or held.live_at is None
        or now - timedelta(microseconds=held.live_at // 1000) > needed.fresher_than
        for needed in plan.requires
    )


def known(world: World, reading: ReadingName | None) -> StateReading | None:
    """What is known of a reading; None for nothing."""
    shadow = world.shadow
    return None if shadow is None or reading is None else shadow.state.get(reading)


def unmet(requires: tuple[Needed, ...], world: World) -> str:
    """What is not as it has to be before an action; empty when all is."""
    for needed in requires:
        held, wanted = known(world, needed.reading), needed.equals
        if held is not None and wanted is not None and differs(held.value, wanted, 0.0):
            return f"{needed.reading} is {held.value}, not {wanted}"
    return ""


def begun(asked: Opened) -> Opened:
    """A command that has begun: what its issuer decided on was judged before, and is changed by it."""
    return replace(asked, command=asked.command.model_copy(update={"precondition": None}))
