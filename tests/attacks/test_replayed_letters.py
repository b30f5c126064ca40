"""Dead letters are no way round the gate: whoever runs one again runs it through all of it (threats T47)."""

from datetime import timedelta

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("D2", "D3", "T4")]


@pytest.mark.threat("T47")
def test_a_letter_whose_time_is_over_is_refused_and_nobody_runs_all_by_mistake(venue: Venue) -> None:
    venue.fleet.does("fault", PLUG, fault={"fault": "silent", "way": "said"})
    toggle = venue.sign(PLUG, ActionName.TOGGLE, valid_for=timedelta(seconds=5))
    venue.cloud.send(toggle.envelope)
    assert venue.end_of(toggle).outcome is Outcome.UNKNOWN

    would = ("dead-letters", "replay", "1", "--dry-run")
    wait_until(lambda: "would be refused: expired" in venue.agent.run(*would).stdout, "its time to be over")
    all_of_them = venue.agent.run("dead-letters", "replay")
    by_filter = venue.agent.run("dead-letters", "replay", "--action", "toggle")
    again = venue.agent.run("dead-letters", "replay", "1")

    assert all_of_them.returncode != 0
    assert "say which" in all_of_them.stderr
    assert (by_filter.returncode, again.returncode) == (1, 1)
    # It may have happened: only who has looked may ask for it, one by one.
    assert "refused: outcome_unknown" in by_filter.stdout
    assert "refused: expired" in again.stdout
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert query(venue.agent.database, "SELECT command, state FROM inbox") == [(toggle.command.id, "unknown")]
    assert toggle.command.id in venue.agent.run("dead-letters", "list", "--wide").stdout
    assert "dead_letter_replayed" in venue.agent.run("audit", "list").stdout
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
