"""A command decided on an old version: somebody was at the appliance meanwhile."""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended


async def _play(venue: Venue) -> list[Statement]:
    lights, versions = venue.appliances["Bar lights"], venue.evidence.versions
    await venue.look()
    old = versions[lights.id]
    venue.say(f"The cloud sees the bar lights at version {old}, and signs: brightness 30, if still so.")
    signed = await venue.cloud.sign(lights.id, "brightness", "level=30", "--if-version", str(old))
    await venue.appliances.press(lights)
    await venue.until(lambda: versions[lights.id] > old, "the cloud to see that the button was pressed")
    venue.say(f"Before it is sent somebody presses the button: version {versions[lights.id]}.")
    await venue.give(signed)
    await venue.until_ended(signed.id)
    stale = ended(venue.evidence, signed.id, outcomes=["refused"], reason="stale")
    untouched = done(venue.evidence, lights.id, "brightness", times=0, name=lights.name)
    await venue.until(lambda: venue.evidence.read_afresh(signed.id) > 0, "the hub to have asked the lights")
    new = venue.evidence.read_afresh(signed.id)
    venue.say(f"The hub has read the lights afresh. The cloud decides again, on version {new}.")
    again = await venue.cloud.sign(lights.id, "brightness", "level=30", "--if-version", str(new))
    venue.expect(lights, "brightness")
    await venue.give(again)
    await venue.until_ended(again.id)
    return [
        stale,
        untouched,
        ended(venue.evidence, again.id, outcomes=["succeeded"]),
        done(venue.evidence, lights.id, "brightness", times=1, name=lights.name),
    ]


STALE: Final = Chapter(
    title="A command decided on an old version",
    shows="If the appliance has changed since the cloud decided, nothing is done; the cloud decides again.",
    play=_play,
)
