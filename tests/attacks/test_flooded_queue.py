"""T14, T52: whoever owns the queue floods the hub; nobody but the origin of what is wrong is held up.

What no known key has signed is counted, not written, and counts against nobody. What a known key has signed
and is not its to ask opens the breaker of that key and action; a good one passes once the breaker tries.
"""

import json
import secrets
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import BreakerRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import unproven_payload
from edgeagent.ids import DeviceId
from edgeagent.issuer.keys import PrivateKey
from tests.attacks.offices import Offices
from tests.attacks.wrong_hands import Hands, in_wrong_hands, signatures_of
from tests.support.agents_keys import Keys
from tests.support.agents_venue import PLUG
from tests.support.brokers import wait_until
from tests.support.clocks import ManualClock
from tests.support.stores import query

FORGED: Final = 10_000
WRONG: Final = 60
OTHER: Final = DeviceId("02A1B2000002")
STRANGER: Final = DeviceId("plug-of-somebody-else")
OPEN_FOR: Final = timedelta(seconds=4)
ON: Final = {"on": True}

pytestmark = [pytest.mark.slow, pytest.mark.requirement("B1", "B2", "T9", "R7")]


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    """A venue whose breakers try again soon."""
    with in_wrong_hands(tmp_path, Keys(terms={"breaker": BreakerRule(open_for=OPEN_FOR)})) as running:
        yield running


def forged(good: bytes, count: int) -> list[bytes]:
    """Commands in the name of a key, with signatures that nobody has made."""
    envelope = signatures_of(good)
    found = []
    for _ in range(count):
        signatures = [
            each.model_copy(update={"sig": secrets.token_bytes(64)}) for each in envelope.signatures
        ]
        found.append(encode(envelope.model_copy(update={"signatures": signatures})))
    assert unproven_payload(found[0]) == unproven_payload(good)
    return found


def trail(hands: Hands) -> int:
    """How many rows the audit trail has."""
    [(rows,)] = query(hands.venue.agent.database, "SELECT count(*) FROM audit")
    assert isinstance(rows, int)
    return rows


def breakers(hands: Hands) -> dict[str, str]:
    """How those breakers stand that are not closed, by action."""
    said = json.loads(hands.venue.agent.run("--json", "breakers", "list").stdout)
    return {each["action"]: each["phase"] for each in said["breakers"] if each["phase"] != "closed"}


def one_may_try(hands: Hands) -> bool:
    """Whether the time of the one breaker that is open is over."""
    said = json.loads(hands.venue.agent.run("--json", "breakers", "list").stdout)
    [left] = [each.get("left") for each in said["breakers"] if each["phase"] != "closed"]
    return not left


@pytest.mark.threat("T14")
def test_ten_thousand_forged_commands_do_nothing_and_cost_next_to_nothing(hands: Hands) -> None:
    good = hands.sign(ActionName.POWER, ON, by=[hands.venue.keys.desk])
    before, rows, lines = hands.contents(), trail(hands), hands.venue.agent.log.count("\n")

    for envelope in forged(good.envelope, FORGED):
        hands.queue.lend(envelope)
    hands.queue.wait_until_taken(within=120)

    assert hands.contents() == before
    # A row for each minute that it lasted, and what the hub says by itself.
    assert trail(hands) - rows <= 10
    assert hands.venue.agent.log.count("\n") - lines <= 10
    assert breakers(hands) == {}
    hands.works(hands.venue.keys.desk)


@pytest.mark.threat("T14")
def test_after_a_flood_of_wrong_ones_a_good_one_passes_once_the_breaker_tries(hands: Hands) -> None:
    desk = hands.venue.keys.desk

    wrong = [hands.sign(ActionName.TOGGLE, by=[desk], device=STRANGER).envelope for _ in range(WRONG)]
    while_open = hands.sign(ActionName.TOGGLE, by=[desk])
    # At once, before its time is over on the slowest machine.
    hands.deliver(*wrong, while_open.envelope)
    stands = breakers(hands)
    wait_until(lambda: one_may_try(hands), "the breaker's time to be over")
    probe = hands.sign(ActionName.TOGGLE, by=[desk])
    hands.deliver(probe.envelope)

    assert stands.keys() == {"toggle"}
    assert hands.stands(while_open.command.id) == []
    assert hands.ended(probe) == (Outcome.SUCCEEDED, None)
    assert hands.effects() == 1
    wait_until(lambda: breakers(hands) == {}, "the breaker to be closed")
    kinds = [kind for (kind,) in query(hands.venue.agent.database, "SELECT kind FROM audit")]
    assert [kinds.count(f"breaker_{turn}") for turn in ("opened", "probed", "closed")] == [1, 1, 1]


@pytest.mark.threat("T52")
def test_a_flood_that_one_origin_has_signed_stops_no_other(tmp_path: Path) -> None:
    keys = Offices()
    with in_wrong_hands(tmp_path, keys, plugs=2) as hands:
        hands.deliver(
            *(hands.sign(ActionName.POWER, ON, by=[keys.desk], device=OTHER).envelope for _ in range(WRONG))
        )
        stopped = hands.sign(ActionName.POWER, ON, by=[keys.desk])
        before = hands.contents()
        hands.deliver(stopped.envelope)

        assert breakers(hands) == {"power": "open"}
        assert hands.contents() == before
        assert hands.stands(stopped.command.id) == []
        hands.works(keys.night)


@pytest.mark.threat("T52")
def test_nobody_trips_the_breaker_of_a_key_that_he_does_not_have(tmp_path: Path) -> None:
    """Neither by forging in its name, nor by bringing what it did sign again, late, or to the wrong hub."""
    keys = Offices()
    with in_wrong_hands(tmp_path, keys, plugs=2) as hands:
        honest = hands.sign(ActionName.POWER, ON, by=[keys.desk])
        then = ManualClock(ProvenClock(SystemTime()).wall().best - timedelta(hours=1))
        late = hands.sign(ActionName.POWER, ON, by=[keys.desk], clock=then)
        wrong = hands.sign(ActionName.POWER, ON, by=[PrivateKey.new()], device=OTHER)

        hands.deliver(*forged(honest.envelope, WRONG), wrong.envelope)
        hands.deliver(late.envelope, honest.envelope, times=WRONG)

        assert breakers(hands) == {}
        assert hands.ended(honest) == (Outcome.SUCCEEDED, None)
        [(state, reason)] = hands.stands(late.command.id)
        assert (state, reason) == ("refused", Reason.EXPIRED)
        assert hands.venue.effects(PLUG, ActionName.POWER) == 1
        hands.works(keys.desk)
