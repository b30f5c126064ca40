"""T3: what is left in the broker for whoever comes: the hub does nothing of it, says so, and counts it once.

A device of this kind obeys what is retained on its topics at each of its own connections, and no hub can keep
it from that; the hub finds it, tells people, and adds nothing to it. What looks like a command to a hub is
told of in ``test_infected_television``.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from tests.attacks.television import Television
from tests.attacks.test_infected_television import TOPIC
from tests.support.agents_cloud import FIRST, numbers_of
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("M3", "M6"), pytest.mark.threat("T3")]

POISON: Final = {
    f"cmnd/{TOPIC}/POWER": b"TOGGLE",
    f"cmnd/{TOPIC}/POWER1": b"TOGGLE",
    f"cmnd/{TOPIC}/NoSuchThing": b"1",
}
"""Two of which the plug obeys."""
OBEYED: Final = 2
STARTS: Final = 3


@pytest.fixture
def television(venue: Venue) -> Iterator[Television]:
    """Somebody who leaves things, and hears all that is said."""
    with Television(venue.broker) as infected:
        yield infected


def toggled(venue: Venue) -> int:
    return venue.effects(PLUG, ActionName.TOGGLE)


def on_record(venue: Venue) -> Counter[object]:
    """How often the trail tells of something retained, by the topic."""
    rows = query(venue.agent.database, "SELECT detail ->> 'topic' FROM audit WHERE kind = 'retained_command'")
    return Counter(topic for (topic,) in rows)


def is_on_record(venue: Venue) -> bool:
    return on_record(venue).total() >= len(POISON)


def test_a_retained_command_makes_the_hub_do_nothing_at_any_start(
    venue: Venue, television: Television
) -> None:
    for topic, payload in POISON.items():
        television.says(topic, payload, retain=True)
    wait_until(lambda: toggled(venue) == OBEYED, "the plug to obey")
    television.heard.clear()

    for _ in range(STARTS):
        venue.agent.kill()
        venue.agent.start()
        venue.agent.wait_for_broker()
        wait_until(partial(is_on_record, venue), "what lies there to be found")
        # Told once, however often it is found again.
        assert on_record(venue) == Counter({repr(topic): 1 for topic in POISON})
    wait_until(
        lambda: "retained commands act at each reconnect" in venue.agent.run("health").stdout,
        "health to tell what this start has found",
    )

    assert toggled(venue) == OBEYED
    assert [topic for topic, _ in television.heard if topic in POISON] == []
    assert query(venue.agent.database, "SELECT command FROM inbox") == []
    assert venue.cloud.receipts() == []
    venue.catch_up()
    alerts = [told.data["reason"] for told in venue.cloud.told(EventType.ALERT)]
    assert alerts == [Reason.RETAINED_COMMAND] * len(POISON)


def test_what_the_plug_does_of_itself_is_no_work_of_the_hub_and_keeps_no_command_from_being_done(
    venue: Venue, television: Television
) -> None:
    television.says(f"cmnd/{TOPIC}/POWER", b"TOGGLE", retain=True)
    wait_until(lambda: toggled(venue) == 1, "the plug to obey")
    venue.unplug()
    wait_until(lambda: venue.agent.device(PLUG).online is False, "the plug to be gone")
    television.heard.clear()

    venue.plug_in()
    wait_until(lambda: toggled(venue) == 2, "the plug to obey again")
    wait_until(lambda: venue.agent.device(PLUG).online is True, "the plug to be back")

    # Without a payload it is the hub's question how a plug is that has come back.
    told = [payload for topic, payload in television.heard if topic == f"cmnd/{TOPIC}/POWER" and payload]
    assert told == []
    assert query(venue.agent.database, "SELECT command FROM inbox") == []
    done = venue.order(PLUG, ActionName.TOGGLE)
    assert venue.end_of(done).outcome is Outcome.SUCCEEDED
    assert toggled(venue) == 3


def test_a_retained_reading_is_stored_once_however_often_the_hub_starts(
    venue: Venue, television: Television
) -> None:
    television.says(f"tele/{TOPIC}/SENSOR", b'{"ENERGY":{"Total":%d}}' % FIRST, retain=True)
    venue.cloud.wait_for(1)

    for _ in range(STARTS):
        venue.agent.kill()
        venue.agent.start()
        venue.agent.wait_for_broker()
    television.says(f"tele/{TOPIC}/SENSOR", b'{"ENERGY":{"Total":%d}}' % (FIRST + 1))
    venue.cloud.wait_for(2)
    venue.catch_up()

    assert venue.cloud.stored_numbers() == [FIRST, FIRST + 1]


def test_a_reading_that_was_left_before_the_hub_came_is_told_as_old(tmp_path: Path) -> None:
    with Venue(tmp_path) as venue, Television(venue.broker) as television:
        television.says(f"tele/{TOPIC}/SENSOR", b'{"ENERGY":{"Total":%d}}' % FIRST, retain=True)
        venue.open()
        television.says(f"tele/{TOPIC}/SENSOR", b'{"ENERGY":{"Total":%d}}' % (FIRST + 1))
        venue.cloud.wait_for(2)

        told = venue.cloud.events(Stream.TELEMETRY)

    ages = {number: each.data.get("retained") for each in told for number in numbers_of(each.data)}
    assert ages == {FIRST: True, FIRST + 1: None}
