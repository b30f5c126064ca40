"""T15: whoever has stolen the desk's online key, and the queue with it, does what the desk may do, no more.

They act on no other device, take no other action, agree to nothing that they signed, and neither stop the hub
nor tell it the time or its policy. Once a published policy revokes the key, nothing of theirs is done, be it
new, recorded or waiting; nobody has to visit the hub.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from edgeagent.clock import ClockSource, ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_TYPE
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import merged, sign, unproven_payload
from edgeagent.ids import DeviceId
from edgeagent.issuer.commands import SignedCommand
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.orders import Wish, sign_order
from edgeagent.issuer.policies import sign_policy
from tests.attacks.offices import Offices
from tests.attacks.wrong_hands import Hands, in_wrong_hands
from tests.support.agents_cloud import RefusedByCloudError
from tests.support.agents_policy import published, wait_for_version
from tests.support.agents_venue import HUB, PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query
from tests.support.tuf_repository import Repository

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T2", "T7"), pytest.mark.threat("T15")]

OTHER: Final = DeviceId("02A1B2000002")
ON: Final = {"on": True}
HOUR: Final = timedelta(hours=1)


@pytest.fixture(scope="module")
def keys() -> Offices:
    return Offices()


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory, keys: Offices) -> Iterator[Hands]:
    """A venue for all stories but those that change its policy or its time: the desk's key is stolen."""
    with in_wrong_hands(tmp_path_factory.mktemp("venue"), keys, plugs=2) as running:
        yield running


def on_another_device(hands: Hands, key: PrivateKey) -> SignedCommand:
    return hands.sign(ActionName.POWER, ON, by=[key], device=OTHER)


def another_action(hands: Hands, key: PrivateKey) -> SignedCommand:
    return hands.sign(ActionName.REFRESH, by=[key])


def an_action_without_a_rule(hands: Hands, key: PrivateKey) -> SignedCommand:
    return hands.sign(ActionName.IDENTIFY, by=[key])


def for_the_next_hour(hands: Hands, key: PrivateKey) -> SignedCommand:
    return hands.sign(ActionName.POWER, ON, by=[key], valid_for=HOUR)


BEYOND: Final[dict[Callable[[Hands, PrivateKey], SignedCommand], Reason]] = {
    on_another_device: Reason.NOT_ALLOWED,
    another_action: Reason.NOT_ALLOWED,
    an_action_without_a_rule: Reason.NOT_ALLOWED,
    for_the_next_hour: Reason.VALID_TOO_LONG,
}


@pytest.mark.parametrize("asked", BEYOND, ids=lambda asked: asked.__name__)
def test_what_its_role_does_not_cover_is_refused_by_the_queue_and_by_the_hub(
    hands: Hands, keys: Offices, asked: Callable[[Hands, PrivateKey], SignedCommand]
) -> None:
    order = asked(hands, keys.desk)
    before = hands.contents()

    with pytest.raises(RefusedByCloudError, match=BEYOND[asked]):
        hands.venue.cloud.send(order.envelope)
    waiting = hands.venue.cloud.hub().waiting
    hands.deliver(order.envelope, times=3)

    assert waiting == 0
    assert hands.ended(order) == (Outcome.REFUSED, BEYOND[asked])
    after = hands.contents()
    for what in ("versions", "operations", "stops", "policy", "effects"):
        assert after[what] == before[what]
    hands.works(keys.desk)


def test_it_agrees_to_no_command_of_its_own(hands: Hands, keys: Offices) -> None:
    order = hands.sign(ActionName.TOGGLE, by=[keys.desk])
    twice = sign(unproven_payload(order.envelope), COMMAND_TYPE, [keys.desk, keys.desk])
    before = hands.effects()

    hands.deliver(twice, order.envelope, times=3)

    assert hands.waits_for_approval(order)
    assert hands.effects() == before


@pytest.mark.parametrize("verb", Verb)
def test_it_neither_stops_the_hub_nor_lets_it_go_on(hands: Hands, keys: Offices, verb: Verb) -> None:
    wish = Wish(hub=HUB, epoch=hands.venue.cloud.epoch, verb=verb, kind="all")
    order = sign_order(wish, [keys.desk], ProvenClock(SystemTime()))
    before = hands.contents()

    with pytest.raises(RefusedByCloudError, match=Reason.BAD_SIGNATURE):
        hands.venue.cloud.send(order.envelope)
    hands.deliver(order.envelope, times=3)

    assert hands.contents() == before
    assert ("commands", Reason.BAD_SIGNATURE) in hands.refusals("commands_unverified")
    hands.works(keys.desk)


def test_what_it_signs_as_a_policy_is_refused_and_the_one_in_force_stays(hands: Hands, keys: Offices) -> None:
    rules = keys.rules(HUB)
    everything = {name: rule.model_copy(update={"approvals": None}) for name, rule in rules.actions.items()}
    everything = {name: rule.model_copy(update={"tier": Tier.LOW}) for name, rule in everything.items()}
    forged = rules.model_copy(update={"version": 2, "actions": everything})
    agent = hands.venue.agent
    place = agent.folder / "policy.json"
    honest, before = place.read_bytes(), hands.contents()

    agent.kill()
    place.write_bytes(sign_policy(forged, [keys.desk]))
    agent.start()
    agent.wait_for_broker()

    assert agent.status().policy.version == 1
    refused = "SELECT detail ->> 'why' FROM audit WHERE kind = 'policy_refused'"
    assert query(agent.database, refused) == [("no signature by a known key verifies",)]
    order = hands.sign(ActionName.TOGGLE, by=[keys.desk])
    hands.deliver(order.envelope)
    assert hands.waits_for_approval(order)
    assert hands.contents()["effects"] == before["effects"]
    place.write_bytes(honest)


def test_the_hub_believes_no_time_that_it_signs(tmp_path: Path) -> None:
    keys = Offices()
    venue = Venue(tmp_path, keys=keys)
    venue.server.time_key = keys.desk
    with venue:
        venue.open()
        wait_until(
            lambda: venue.agent.log.count("no signature by a known key verifies") > 1, "it to be asked twice"
        )

        clock = venue.agent.status().clock

        assert clock.source is not ClockSource.STATEMENT
        told = query(venue.agent.database, "SELECT actor FROM audit WHERE kind = 'clock_proven'")
        assert ("statement",) not in told


def test_once_a_published_policy_revokes_it_nothing_of_its_making_is_done(
    tmp_path: Path, keys: Offices
) -> None:
    repository = Repository(tmp_path / "repository", now=datetime.now(UTC))
    repository.publishes(keys.published(HUB, 1))
    source = partial(_looks_at, repository)
    with in_wrong_hands(tmp_path / "venue", keys, prepare=source) as hands:
        agent = hands.venue.agent
        wait_for_version(agent, 1)
        hands.works(keys.desk)
        waits = hands.sign(ActionName.TOGGLE, by=[keys.desk])
        hands.deliver(waits.envelope)
        assert hands.waits_for_approval(waits)
        recorded = hands.sign(ActionName.POWER, {"on": False}, by=[keys.desk])
        process = agent.pid

        repository.publishes(keys.published(HUB, 2, without="desk"))
        wait_for_version(agent, 2)
        before = hands.contents()
        fresh = hands.sign(ActionName.POWER, {"on": False}, by=[keys.desk])
        agreed = merged(waits.envelope, sign(unproven_payload(waits.envelope), COMMAND_TYPE, [keys.chief]))
        hands.deliver(recorded.envelope, fresh.envelope, agreed, times=5)

        assert hands.contents()["effects"] == before["effects"]
        assert hands.stands(recorded.command.id) == hands.stands(fresh.command.id) == []
        assert hands.ended(waits) == (Outcome.REFUSED, Reason.BAD_SIGNATURE)
        assert agent.pid == process
        hands.works(keys.night)
        agent.kill()
        agent.start()
        agent.wait_for_broker()
        hands.deliver(recorded.envelope, fresh.envelope, agreed, times=5)
        assert hands.venue.effects(PLUG, ActionName.TOGGLE) == 0
        assert hands.effects() == int(str(before["effects"][0][0])) + 1


def _looks_at(repository: Repository, venue: Venue) -> None:
    published(venue.agent, repository, str(repository.folder))
