"""Fifty who send one command at the same moment: one effect, as the plug, the broker and the cloud see it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from tests.support.agents_venue import PLUG, Venue
from tests.support.device import Device
from tests.support.stores import query

SENDERS: Final = 50

pytestmark = [pytest.mark.slow, pytest.mark.requirement("I3", "Q3", "T4")]


def test_fifty_who_send_one_command_at_the_same_moment_move_the_plug_once(venue: Venue) -> None:
    toggle = venue.sign(PLUG, ActionName.TOGGLE)

    with Device(venue.broker.port) as onlooker, ThreadPoolExecutor(SENDERS) as senders:
        onlooker.listens("cmnd/#")
        answers = list(senders.map(venue.cloud.send, [toggle.envelope] * SENDERS))
        receipt = venue.end_of(toggle)
        # They try again when it is over.
        answers += senders.map(venue.cloud.send, [toggle.envelope] * SENDERS)
        venue.catch_up()
        heard = [message.payload for message in onlooker.hears_out("cmnd/nobody/mark")]

    assert {answer.id for answer in answers} == {toggle.command.id}
    assert (receipt.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)
    assert heard.count(b"TOGGLE") == 1
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert len(venue.cloud.receipts(toggle.command.id)) == 1
    assert query(venue.agent.database, "SELECT command FROM inbox") == [(toggle.command.id,)]
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
