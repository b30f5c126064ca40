"""An expired command: refused at the queue's door, and by the hub itself when it comes past the queue."""

import asyncio
from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended

_VALID: Final = 1
# Until it is over beyond doubt: the hub's clock is an interval as wide as its last proof took.
_OVER: Final = 3.0


async def _play(venue: Venue) -> list[Statement]:
    wall = venue.appliances["Screen wall"]
    venue.say(f"A command that is good for {_VALID} s is signed, and lies until its time is over.")
    signed = await venue.cloud.sign(wall.id, "power", "on=true", "--valid-for", f"{_VALID}s")
    await asyncio.sleep(_OVER)
    answer = await venue.cloud.send(signed)
    venue.say("Then it is sent to the queue, and slipped past the queue to the hub.")
    venue.asked.commands.append(signed.id)
    venue.line.slip_in(signed.envelope, times=1)
    await venue.until_ended(signed.id)
    reason = answer.text("reason") or answer.text("state")
    return [
        Statement("The queue refused it: expired.", f"{answer.status} {reason}", reason == "expired"),
        ended(venue.evidence, signed.id, outcomes=["refused", "expired"], reason="expired"),
        done(venue.evidence, wall.id, "power", times=0, name=wall.name),
    ]


EXPIRED: Final = Chapter(
    title="An expired command",
    shows="What comes too late is not begun, whoever passes it on.",
    play=_play,
)
