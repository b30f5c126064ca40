"""Readings go up: a burst of numbered readings, counted at each end."""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, readings_kept

_COUNT: Final = 2000
_RATE: Final = 1000


async def _play(venue: Venue) -> list[Statement]:
    burst = venue.burst(_COUNT)
    venue.say(
        f"The appliances send {_COUNT:,} numbered readings, {_RATE:,} a second, each to be acknowledged."
    )
    await venue.watch(venue.appliances.burst(burst, rate=_RATE))
    await venue.until_kept(burst)
    return readings_kept(venue.evidence, burst, doubles_can_be_told=venue.broker.marks_redeliveries)


READINGS: Final = Chapter(
    title="Readings go up",
    shows="What the broker has acknowledged to an appliance is at the cloud, once.",
    play=_play,
)
