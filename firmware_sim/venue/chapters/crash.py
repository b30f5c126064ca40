"""kill -9 of the agent between effect and commit, with readings streaming meanwhile.

The product has no switch for this. Two appliances act and do not say so; their journals show the effects, and
at that moment, while the agent waits for the answers, it is killed.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from firmware_sim.venue.appliances import Appliance
from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.cloud import Signed
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, changed, done, ended, readings_kept

# More wait for the hub than it has asked to be sent at once: what is sent again reaches far back.
_COUNT: Final = 1500
_LASTING: Final = 3


async def _play(venue: Venue) -> list[Statement]:
    signs, lights = venue.appliances["Door signs"], venue.appliances["Stage lights"]
    burst, evidence = venue.burst(venue.broker.most_behind or _COUNT), venue.evidence
    venue.say("Two appliances are to act and not to answer: one is toggled, the other switched on.")
    toggle = await venue.cloud.sign(signs.id, "toggle", "channel=2")
    power = await venue.cloud.sign(lights.id, "power", "on=true")
    venue.expect(signs, "toggle")
    venue.expect(lights, "power")
    async with asyncio.TaskGroup() as meanwhile:
        for appliance in (signs, lights):
            await venue.appliances.fall_silent(appliance)
        meanwhile.create_task(venue.appliances.burst(burst, rate=len(burst) // _LASTING))
        moment = await _killed_between(venue, {signs: toggle, lights: power})
        venue.say(
            f"At that moment the agent is killed; {len(burst):,} readings stream, and go on without it."
        )
    for appliance in (signs, lights):
        await venue.appliances.heal(appliance)
    venue.say("The appliances can speak again, and the agent is started.")
    await venue.hub.start()
    await venue.until_ended(toggle.id, power.id)
    await venue.until_kept(burst)
    return [
        moment,
        done(evidence, signs.id, "toggle", times=1, name=signs.name),
        ended(evidence, toggle.id, outcomes=["unknown", "succeeded"]),
        changed(evidence, lights.id, "power", times=1, name=lights.name),
        ended(evidence, power.id, outcomes=["succeeded"]),
        *readings_kept(evidence, burst, doubles_can_be_told=venue.broker.marks_redeliveries),
    ]


async def _killed_between(venue: Venue, commands: Mapping[Appliance, Signed]) -> Statement:
    """Give commands, and kill the agent as soon as the journal shows that all are carried out."""
    evidence = venue.evidence
    for command in commands.values():
        await venue.give(command)

    def acted() -> int:
        return sum(bool(evidence.effects(appliance.id)) for appliance in commands)

    await venue.until(lambda: acted() == len(commands), "the appliances to act")
    receipts = sum(len(evidence.receipts(command.id)) for command in commands.values())
    await venue.hub.kill()
    return Statement(
        "The kill came after every effect and before any receipt.",
        f"{acted()} of {len(commands)} effects, {receipts} receipts",
        acted() == len(commands) and not receipts,
    )


CRASH: Final = Chapter(
    title="kill -9 between effect and commit",
    shows="What may have been done is not done again blindly; no acknowledged reading is lost or doubled.",
    play=_play,
)
