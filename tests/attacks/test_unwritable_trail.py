"""T44: the audit trail alone takes no rows of commands; everything else of the database does.

A command's row of the trail is in the commit of its admission, its claim, its step and its end, so one that
cannot be put on record is not taken, not begun and not sent, whatever its tier (SPEC R2 asks it of the high
one). A trail that forbids what it has to take is a broken promise of our own: the agent ends, for its
supervisor to start again, rather than act. What a disk does to trail and all is in ``tests/acceptance``.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from tests.support.agents_burst import Judgement
from tests.support.agents_cloud import FIRST
from tests.support.agents_keys import Keys
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

BURST: Final = 200
_BLOCKED: Final = """
CREATE TRIGGER no_commands BEFORE INSERT ON audit WHEN NEW.kind LIKE '%command%' OR NEW.kind LIKE 'step%'
BEGIN SELECT RAISE(ABORT, 'the trail takes no commands'); END
"""
_OPENED: Final = "DROP TRIGGER no_commands"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.threat("T44"),
    pytest.mark.requirement("R2", "A1", "Q3"),
]


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """A venue whose reboots are of the high tier."""
    with Venue(tmp_path, keys=Keys(high=frozenset({ActionName.REBOOT}))) as running:
        running.open()
        yield running


def change_the_trail(venue: Venue, sql: str) -> None:
    """Change what the trail takes, while the agent is down."""
    with closing(sqlite3.connect(venue.agent.database)) as connection:
        connection.execute(sql)
        connection.commit()


def test_what_cannot_be_put_on_record_is_not_done_until_it_can(venue: Venue) -> None:
    sends_a_burst(venue, first=FIRST)
    assert venue.agent.stop() == 0
    change_the_trail(venue, _BLOCKED)
    venue.order(PLUG, ActionName.POWER, {"on": True})
    venue.order(PLUG, ActionName.REBOOT)

    venue.agent.launch()
    status = venue.agent.wait_for_end()

    assert status > 0
    assert query(venue.agent.database, "SELECT count(*) FROM inbox") == [(0,)]
    assert venue.effects(PLUG, ActionName.POWER) == venue.effects(PLUG, ActionName.REBOOT) == 0
    assert not venue.cloud.receipts()

    change_the_trail(venue, _OPENED)
    venue.agent.start()
    venue.agent.wait_for_broker()
    # The queue has lent them to who has died, for a while.
    wait_until(
        lambda: (
            set(query(venue.agent.database, "SELECT action, state FROM inbox"))
            == {("power", "succeeded"), ("reboot", "held")}
        ),
        "one to be done, and one to wait for an approval",
        within=120,
    )
    sends_a_burst(venue, first=FIRST + BURST)
    assert venue.judgement() == Judgement()
    assert venue.effects(PLUG, ActionName.POWER) == 1
    assert venue.effects(PLUG, ActionName.REBOOT) == 0
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


def sends_a_burst(venue: Venue, *, first: int) -> None:
    """Let the plug send numbered readings; all of them reach the cloud."""
    venue.burst(BURST, first=first).finish()
    venue.catch_up()
