"""The same command a hundred times: at the queue's door, on the line, and again after a restart."""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended

_TIMES: Final = 100


async def _play(venue: Venue) -> list[Statement]:
    maker, line = venue.appliances["Ice maker"], venue.line
    venue.say("A toggle, which done twice would undo itself, is signed, sent and carried out.")
    signed = await venue.cloud.sign(maker.id, "toggle", "--valid-for", "10m")
    venue.expect(maker, "toggle")
    await venue.give(signed)
    await venue.until_ended(signed.id)
    venue.say(f"Somebody sends it {_TIMES} times more: to the queue, then past the queue on the line.")
    answers = [await venue.cloud.send(signed) for _ in range(_TIMES)]
    known = sum(answer.text("state") == "final" for answer in answers)
    before = line.taken
    line.slip_in(signed.envelope, times=_TIMES)
    await venue.until(lambda: line.taken >= before + _TIMES, "the hub to take the replays")
    venue.say(f"The agent is stopped and started again, and gets it {_TIMES} times more.")
    await venue.hub.restart()
    line.slip_in(signed.envelope, times=_TIMES)
    await venue.until(lambda: line.taken >= before + 2 * _TIMES, "the hub to take the replays")
    taken = line.taken - before
    return [
        Statement("The queue answered each with the end it knew.", f"{known} of {_TIMES}", known == _TIMES),
        Statement("The hub took each replay off the line.", f"{taken} of {2 * _TIMES}", taken == 2 * _TIMES),
        done(venue.evidence, maker.id, "toggle", times=1, name=maker.name),
        ended(venue.evidence, signed.id, outcomes=["succeeded"]),
    ]


REPLAY: Final = Chapter(
    title="The same command, a hundred times",
    shows="A command is done once, however often it comes, before and after a restart.",
    play=_play,
)
