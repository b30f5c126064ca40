"""Playing chapters in a venue, and the verdict over all of them."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from firmware_sim.venue.by_hand import lines
from firmware_sim.venue.chapters.book import BOOK
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, each_ended_once, nothing_else_done, verdict, whole

_LONG: Final = 90.0


async def play(venue: Venue, numbers: Sequence[int]) -> list[Statement]:
    """Play chapters, by number.

    Returns:
        All that was stated.

    Raises:
        VenueError: a party has gone.
    """
    said: list[Statement] = []
    for number in numbers:
        chapter = BOOK[number - 1]
        venue.teller.title(f"{number}  {chapter.title}")
        venue.say(chapter.shows)
        with venue.timed(f"chapter {number}"):
            statements = await chapter.play(venue)
        await venue.look()
        venue.teller.settle()
        for statement in statements:
            venue.teller.statement(statement)
        said += statements
    return said


async def judge(venue: Venue, said: Sequence[Statement]) -> bool:
    """State what holds over all chapters, and tell the verdict.

    Returns:
        Whether all that was stated is true.
    """
    venue.teller.title("Verdict")
    await venue.until_ended(*venue.asked.commands)
    over_all = [
        *whole(venue.evidence),
        each_ended_once(venue.evidence, venue.asked),
        nothing_else_done(venue.evidence, venue.asked),
    ]
    venue.teller.settle()
    for statement in over_all:
        venue.teller.statement(statement)
    statements = [*said, *over_all]
    true, false, open_ = ([one for one in statements if one.holds is holds] for holds in (True, False, None))
    counted = f"{len(true)} of {len(true) + len(false)} statements are true"
    if open_:
        counted += f", {len(open_)} could not be judged"
    good = verdict(statements)
    venue.teller.close(f"   {counted}, after {sum(venue.took.values()):.0f} s.", good=good)
    _tell_slowness(venue)
    if not good:
        venue.teller.say("False:")
        for statement in false:
            venue.teller.statement(statement)
    return good


def _tell_slowness(venue: Venue) -> None:
    """Say where the time went, if it was more than a minute and a half."""
    if sum(venue.took.values()) > _LONG:
        parts = sorted(venue.took.items(), key=itemgetter(1), reverse=True)
        listed = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in parts)
        venue.say(f"That is slow; the time went into {listed}.")


async def stay(venue: Venue) -> None:
    """Say what can be tried by hand, and keep the venue up: an agent that ends is started again.

    Raises:
        VenueError: it does not start.
    """
    venue.teller.title("The venue stays up until Ctrl-C")
    venue.say(f"The hub's page, live in a browser: http://{venue.hub.web}/")
    for line in lines(venue):
        venue.teller.show(line)
    while True:
        await venue.hub.ended()
        venue.say("The agent has ended; it is started again, as systemd would.")
        await venue.hub.start()
        venue.say(f"It runs as process {venue.hub.pid}.")
