"""The cloud is cut off, the venue goes on, and everything is caught up."""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended, readings_kept

_COUNT: Final = 1500
_RATE: Final = 1000


async def _play(venue: Venue) -> list[Statement]:
    lamp, awning = venue.appliances["Mood lamp"], venue.appliances["Awning"]
    burst, evidence = venue.burst(_COUNT), venue.evidence
    venue.say("The line is cut. Readings stream; at the hub somebody types edgeagent send … brightness.")
    venue.line.cut()
    await venue.watch(venue.appliances.burst(burst, rate=_RATE))
    venue.expect(lamp, "brightness")
    typed = await venue.hub.send(lamp, "brightness", "level=40")
    venue.asked.commands.append(typed)
    signed = await venue.cloud.sign(awning.id, "position", "percent=60")
    await venue.give(signed)
    await venue.look()
    local = done(evidence, lamp.id, "brightness", times=1, name=f"{lamp.name}, without the cloud,")
    reached = len(evidence.acknowledged(burst) & evidence.stored.keys())
    venue.say("Meanwhile the cloud has signed a command, which waits. The line is mended.")
    for action in ("position", "arrived"):
        venue.expect(awning, action)
    venue.line.mend()
    await venue.until_kept(burst)
    await venue.until_ended(typed, signed.id)
    return [
        Statement("While the line was cut no reading came through.", f"{reached} at the cloud", reached == 0),
        local,
        *readings_kept(evidence, burst, doubles_can_be_told=venue.broker.marks_redeliveries),
        ended(evidence, typed, outcomes=["succeeded"]),
        ended(evidence, signed.id, outcomes=["succeeded"]),
        done(evidence, awning.id, "position", times=1, name=awning.name),
    ]


CUT: Final = Chapter(
    title="The cloud cut off, and caught up",
    shows="Without the cloud the venue works and keeps what it has to tell; then all of it arrives.",
    play=_play,
)
