"""Incident 1: a burst of files that nobody has approved, at the queue's gate and past it."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

from firmware_sim.venue.approved import ARTIFACT, sha256
from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.chapters.trail import Story
from firmware_sim.venue.cloud import Signed
from firmware_sim.venue.policy import ENOUGH
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended, stopped

_BURST: Final = 5
_AT_ONCE: Final = 3
_BAD: Final = hashlib.sha256(b"something else").hexdigest()


async def _play(venue: Venue) -> list[Statement]:
    story, heaters = Story(venue), venue.appliances["Terrace heaters"]
    few = asyncio.Semaphore(_AT_ONCE)

    async def install(digest: str) -> Signed:
        words = (f"artifact={ARTIFACT}", f"digest={digest}")
        async with few:
            return await venue.cloud.sign(heaters.id, "install", *words, key="supplier")

    burst = await asyncio.gather(*(install(_BAD) for _ in range(_BURST)))
    venue.say(
        f"A supplier signs {_BURST} commands to install a file as {ARTIFACT}; the policy approves another "
        "one by that name. The queue takes none of them, nor then the next, whose file is the right one."
    )
    at_the_queue = await _sent(venue, burst, await install(sha256()))
    venue.say("The same burst is slipped past the queue. Meanwhile the desk switches the sound desk on.")
    at_the_hub = await _slipped_past(venue, burst)
    await story.read("breakers list", kinds=("command_refused", "breaker_opened"))
    return [
        *at_the_queue,
        *at_the_hub,
        stopped(venue.evidence, "install", venue.cloud.keys["supplier"], signal="invalid"),
        done(venue.evidence, heaters.id, "install", times=0, name=heaters.name),
    ]


async def _sent(venue: Venue, burst: Sequence[Signed], good: Signed) -> list[Statement]:
    """Send a burst to the queue, and then a command that is as it should be."""
    answers = Counter([(await venue.cloud.send(signed)).text("reason") for signed in burst])
    late = (await venue.cloud.send(good)).text("reason")
    refused = answers["artifact_not_approved"]
    return [
        Statement(
            "The queue refused each: artifact not approved.", f"{refused} of {_BURST}", refused == _BURST
        ),
        Statement(
            "Then it refused whatever that key signs to install: breaker open.",
            late.replace("_", " "),
            late == "breaker_open",
        ),
    ]


async def _slipped_past(venue: Venue, burst: Sequence[Signed]) -> list[Statement]:
    """Slip a burst past the queue, and have somebody else's command done meanwhile."""
    line, desk = venue.line, venue.appliances["Sound desk"]
    before, told = line.taken, [signed.id for signed in burst]
    for signed in burst:
        line.slip_in(signed.envelope, times=1)
    await venue.until(lambda: line.taken >= before + _BURST, "the hub to take the burst")
    power = await venue.cloud.sign(desk.id, "power", "on=true")
    venue.expect(desk, "power")
    await venue.give(power)
    venue.asked.commands += told
    await venue.until_ended(power.id, *told)
    ends = Counter(receipt.reason for signed in burst for receipt in venue.evidence.receipts(signed.id))
    return [
        Statement(
            f"The hub refused {ENOUGH} as not approved, and put the rest aside: breaker open.",
            ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in ends.items()),
            ends == {"artifact_not_approved": ENOUGH, "breaker_open": _BURST - ENOUGH},
        ),
        ended(venue.evidence, power.id, outcomes=["succeeded"]),
        done(venue.evidence, desk.id, "power", times=1, name=desk.name),
    ]


UNAPPROVED: Final = Chapter(
    title="Incident: a burst of files that nobody approved",
    shows="Refused at the queue and at the hub, counted, and stopped for the one who sent it alone.",
    play=_play,
)
