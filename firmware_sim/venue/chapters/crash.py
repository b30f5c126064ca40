"""kill -9 of the agent between effect and commit, with readings streaming meanwhile.

The product has no switch for this. Two appliances act and do not say so; their journals show the effects, and
at that moment, while the agent waits for the answers, it is killed.
"""

import asyncio
from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, changed, done, ended, readings_kept

_COUNT: Final = 1500
_LASTING: Final = 3


async def _play(venue: Venue) -> list[Statement]:
    signs, lights = venue.appliances["Door signs"], venue.appliances["Stage lights"]
    burst, evidence = venue.burst(venue.broker.most_behind or _COUNT), venue.evidence
    venue.say("Two appliances are to act and not to answer: one is toggled, the other switched on.")
    toggle = await venue.cloud.sign(signs.id, "toggle", "channel=2")
    power = await venue.cloud.sign(lights.id, "power", "on=true")
    for appliance in (signs, lights):
        await venue.appliances.fall_silent(appliance)
    venue.expect(signs, "toggle")
    venue.expect(lights, "power")
    async with asyncio.TaskGroup() as meanwhile:
        meanwhile.create_task(venue.appliances.burst(burst, rate=len(burst) // _LASTING))
        await venue.give(toggle)
        await venue.give(power)
        both = await venue.until(
            lambda: bool(evidence.effects(signs.id, "toggle") and evidence.effects(lights.id, "power")),
            "both to act",
        )
        unsettled = not evidence.receipts(toggle.id) and not evidence.receipts(power.id)
        await venue.hub.kill()
        venue.say(
            f"At that moment the agent is killed. {len(burst):,} readings stream, and go on without it."
        )
    for appliance in (signs, lights):
        await venue.appliances.heal(appliance)
    venue.say("The appliances can speak again, and the agent is started.")
    await venue.hub.start()
    await venue.until_ended(toggle.id, power.id)
    await venue.until_kept(burst)
    return [
        Statement(
            "The kill came after both effects and before any receipt.", _moment(both=both), both and unsettled
        ),
        done(evidence, signs.id, "toggle", times=1, name=signs.name),
        ended(evidence, toggle.id, outcomes=["unknown", "succeeded"]),
        changed(evidence, lights.id, "power", times=1, name=lights.name),
        ended(evidence, power.id, outcomes=["succeeded"]),
        *readings_kept(evidence, burst, doubles_can_be_told=venue.broker.marks_redeliveries),
    ]


def _moment(*, both: bool) -> str:
    return "2 of 2 effects" if both else "not both had acted"


CRASH: Final = Chapter(
    title="kill -9 between effect and commit",
    shows="What may have been done is not done again blindly; no acknowledged reading is lost or doubled.",
    play=_play,
)
