"""Times as people read them, also where a clock is wrong."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.cli.times import Times, ago
from edgeagent.clock import EPOCH
from tests.cli.building import terminal
from tests.cli.commanded import commanded
from tests.flows.signing import TV
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("G3")

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=119), "119 s"),
        (timedelta(minutes=3), "3 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(days=400), "400 d"),
    ],
)
def test_a_moment_is_told_by_how_far_it_is(length: timedelta, words: str) -> None:
    times = Times(NOON)

    assert times.since(NOON - length) == f"{words} ago"
    assert times.until(NOON + length) == (f"in {words}" if length else "0 s ago")


def test_what_has_not_been_is_told_as_it_is_where_it_should_have_been() -> None:
    assert Times(NOON).since(NOON + timedelta(days=400)) == "2028-04-04T12:00:00Z"
    assert Times(NOON).since(NOON + timedelta(seconds=1)) == "0 s ago"


def test_while_the_time_is_not_known_moments_are_told_as_they_are() -> None:
    times = Times(None)

    assert times.since(EPOCH) == "1970-01-01T00:00:00Z"
    assert times.until(NOON) == times.by(NOON) == "2027-03-01T12:00:00Z"
    assert times.since(None) == "-"


@pytest.mark.parametrize("seconds", [-5.0, 0.0])
def test_no_length_of_time_is_less_than_none(seconds: float) -> None:
    assert ago(seconds) == "0 s ago"


async def test_a_list_tells_how_long_ago_and_with_utc_when(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await typing.hub.television()
        typing.hub.time_is_known()
        await typing.types("send", TV, "power", "on=true")
        typing.hub.passes(timedelta(minutes=5))

        said = await typing.types("commands", "list")
        absolute = await typing.types("commands", "list", "--utc")
        shown = await typing.types("commands", "show", said.out.splitlines()[1].split()[0])

        assert said.out.splitlines()[1].endswith("5 min ago")
        assert RFC_3339.search(said.out) is None
        assert RFC_3339.search(absolute.out.splitlines()[1]) is not None
        assert "came      5 min ago, expired 4 min ago" in shown.out


async def test_a_hub_that_does_not_know_the_time_says_when_and_not_how_long_ago(tmp_path: Path) -> None:
    async with terminal(tmp_path, "dev-1") as typing:
        surely = await typing.types("devices", "show", "dev-1")
        typing.desk.clock.reset_floor(NOON - timedelta(days=400))

        unsure = await typing.types("devices", "show", "dev-1")

        assert RFC_3339.search(surely.out) is None
        assert RFC_3339.search(unsure.out) is not None
        assert "heard 10 s ago" in unsure.out, "that was measured"
