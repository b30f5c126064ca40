"""What an operator reads after an incident, by the command line: for people; no statement rests on it."""

import asyncio
import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from firmware_sim.fields import Fields, Json, parse
from firmware_sim.venue.stage import Venue

_MOST: Final = 40
# Of a row's details those that say why; its ids are in the trail itself.
_TELLING: Final = ("version", "outcome", "reason", "detail", "signal", "why", "count", "holder", "device")
_TIME: Final = slice(11, 19)


class Story:
    """The operator's lists, and what the audit trail has to say since this was made.

    Args:
        venue: whose.
    """

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    async def read(self, *lists: str, kinds: Collection[str]) -> None:
        """Show what some lists print, then the trail's rows of some kinds, shortened."""
        venue = self._venue
        trail = f"--json audit list --since {self._since} --most {_MOST}"
        *printed, told = await asyncio.gather(*(venue.hub.ask(*words.split()) for words in (*lists, trail)))
        for words, answer in zip(lists, printed, strict=True):
            venue.say(f"The operator reads: edgeagent {words}")
            venue.teller.quote(answer.out)
        venue.say("and edgeagent audit list, of which this is the gist:")
        for row in Fields(parse(told.out, "audit"), "audit").items("rows"):
            at, kind, subject, detail = (row.text(name) for name in ("at", "kind", "subject", "detail"))
            if kind in kinds:
                venue.teller.quote(f"{at[_TIME]}  {kind:16} {subject:31} {gist(json.loads(detail))}")


def gist(detail: Mapping[str, Json]) -> str:
    """What a row's details say to a reader."""
    return ", ".join(f"{name} {detail[name]}" for name in _TELLING if detail.get(name))
