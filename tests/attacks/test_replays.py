"""T4, T16: recorded bytes, as often as one likes, at this hub and at another one beside it, do nothing more.

The queue is the attacker's. The other hub trusts the same keys, hears the same broker and has admitted the
same plugs: only what is signed keeps a command from being done there as well.

What a restart, a lost database and one put back from a copy do to replays is told in ``tests/acceptance``.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_TYPE, Command
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import sign
from edgeagent.ids import CommandId, DeviceId, HubId
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.attacks.wrong_hands import Hands, in_wrong_hands, signatures_of
from tests.support.agents import AgentProcess
from tests.support.agents_cloud import Cloud, RefusedByCloudError
from tests.support.agents_keys import Keys
from tests.support.agents_venue import PLUG
from tests.support.brokers import free_port, wait_until
from tests.support.private import write_private
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T3", "T4")]

OTHER_HUB: Final = HubId("venue-8")
OTHER_PLUG: Final = DeviceId("02A1B2000002")
TOGGLE: Final = ActionName.TOGGLE
TIMES: Final = 50


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys()


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[Hands]:
    """A venue with two plugs, for all stories."""
    with in_wrong_hands(tmp_path_factory.mktemp("venue"), keys, plugs=2) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another hub, and the queue before it.

    Attributes:
        agent: the other hub's.
        queue: theirs who own the first hub's queue.
        cloud: the real queue, as an issuer of the other hub sees it.
    """

    agent: AgentProcess
    queue: ReplayingQueue
    cloud: Cloud


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory: pytest.TempPathFactory, hands: Hands, keys: Keys) -> Iterator[Neighbour]:
    """A hub beside the first, with the same plugs."""
    folder, port, venue = tmp_path_factory.mktemp("neighbour"), free_port(), hands.venue
    (folder / "policy.json").write_bytes(keys.policy(OTHER_HUB))
    _save_token(folder / "queue.token", venue.server.new_hub(OTHER_HUB).token)
    sections = (
        f'[broker]\nhost = "{venue.broker.host}"\nport = {venue.broker.port}\n'
        f'[cloud]\nurl = "http://127.0.0.1:{port}"\ntoken_file = "queue.token"\n'
        f'[policy]\nfile = "policy.json"\nsigner = "{keys.root.public.hex()}"\n'
        '[uplink]\nlinger = "100ms"\nlongest_backoff = "1s"\n'
    )
    with ExitStack() as stack:
        queue = stack.enter_context(ReplayingQueue(venue.server, port))
        agent = stack.enter_context(closing(AgentProcess(folder, sections, hub=OTHER_HUB)))
        agent.start()
        for plug in (PLUG, OTHER_PLUG):
            agent.admit(plug)
        cloud = Cloud(venue.server, OTHER_HUB)
        wait_until(lambda: cloud.has_heard, "the hello of the other hub")
        yield Neighbour(agent, queue, cloud)
        agent.kill()


def _save_token(path: Path, token: str) -> None:
    write_private(path, token)


@pytest.mark.threat("T4")
def test_what_was_done_here_is_not_done_at_another_hub(
    hands: Hands, neighbour: Neighbour, keys: Keys
) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk])
    count = hands.effects()
    hands.deliver(order.envelope)
    assert hands.ended(order) == (Outcome.SUCCEEDED, None)

    with pytest.raises(RefusedByCloudError, match=Reason.WRONG_HUB):
        neighbour.cloud.send(order.envelope)
    neighbour.queue.lend(order.envelope, times=TIMES)
    neighbour.queue.wait_until_taken()

    rows = query(neighbour.agent.database, "SELECT command, state, reason, attempts FROM inbox")
    assert rows == [(order.command.id, "refused", "wrong_hub", 0)]
    assert neighbour.cloud.hub().waiting == 0
    assert hands.effects() == count + 1
    wait_until(lambda: bool(neighbour.cloud.receipts(order.command.id)), "the refusal at the cloud")
    [told] = neighbour.cloud.receipts(order.command.id)
    assert (told.data["outcome"], told.data["reason"]) == (Outcome.REFUSED, Reason.WRONG_HUB)


@pytest.mark.threat("T4")
def test_what_was_signed_for_another_hub_is_not_done_here(
    hands: Hands, neighbour: Neighbour, keys: Keys
) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk], hub=OTHER_HUB)
    foreign = order.command.model_copy(update={"epoch": neighbour.cloud.epoch})
    envelope = sign(encode(foreign), COMMAND_TYPE, [keys.desk])
    count = hands.effects()

    hands.deliver(envelope, times=TIMES)

    assert hands.ended(order) == (Outcome.REFUSED, Reason.WRONG_HUB)
    assert hands.effects() == count
    neighbour.queue.lend(envelope, times=TIMES)
    neighbour.queue.wait_until_taken()
    wait_until(lambda: bool(neighbour.cloud.receipts(order.command.id)), "it to be done where it belongs")
    assert hands.effects() == count + 1


def for_another_device(command: Command) -> Command:
    return command.model_copy(update={"devices": [OTHER_PLUG]})


def for_one_more_device(command: Command) -> Command:
    return command.model_copy(update={"devices": [PLUG, OTHER_PLUG]})


def under_another_id(command: Command) -> Command:
    return command.model_copy(update={"id": f"{command.id}-2", "operation": f"{command.id}-2"})


@pytest.mark.threat("T4")
@pytest.mark.parametrize("other", [for_another_device, for_one_more_device, under_another_id])
def test_recorded_signatures_are_worth_nothing_under_other_bytes(
    hands: Hands, keys: Keys, other: Callable[[Command], Command]
) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk])
    hands.deliver(order.envelope)
    assert hands.ended(order) == (Outcome.SUCCEEDED, None)
    before = hands.contents()

    recorded = signatures_of(order.envelope)
    changed = encode(recorded.model_copy(update={"payload": encode(other(order.command))}))
    hands.deliver(changed, order.envelope, times=TIMES)

    assert hands.contents() == before
    assert ("commands", Reason.BAD_SIGNATURE) in hands.refusals("commands_unverified")


@pytest.mark.threat("T16")
def test_what_is_lent_many_times_at_once_is_done_once(hands: Hands, keys: Keys) -> None:
    """More than one lease holds: several of them carry it, one within the other's time."""
    orders = [
        hands.sign(TOGGLE, by=[keys.desk], device=device) for device in (PLUG, OTHER_PLUG, PLUG, OTHER_PLUG)
    ]
    count = hands.effects()

    for _ in range(TIMES):
        for order in orders:
            hands.queue.lend(order.envelope)
    hands.queue.wait_until_taken()

    ends = [hands.ended(order) for order in orders]
    assert [end for end in ends if end not in ENDS] == []
    done = sum(outcome is Outcome.SUCCEEDED for outcome, _ in ends)
    assert hands.effects() == count + done
    assert [len(hands.stands(order.command.id)) for order in orders] == [1] * len(orders)


ENDS: Final = {(Outcome.SUCCEEDED, None), (Outcome.SUPERSEDED, Reason.SUPERSEDED)}
"""Of two for one slot the later may take the place of the earlier, before that has begun."""


@pytest.mark.threat("T16", "T53")
def test_another_command_under_a_known_id_is_refused_and_told(hands: Hands, keys: Keys) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk])
    hands.deliver(order.envelope)
    assert hands.ended(order) == (Outcome.SUCCEEDED, None)
    before, venue = hands.contents(), hands.venue
    venue.cloud.send(order.envelope)
    others = [
        order.command.model_copy(update=change)
        for change in (
            {"action": ActionName.POWER, "arguments": {"on": True}},
            {"devices": [PLUG, OTHER_PLUG]},
            {"sequence": order.command.sequence + 1},
        )
    ]

    for other in others:
        envelope = sign(encode(other), COMMAND_TYPE, [keys.desk])
        with pytest.raises(RefusedByCloudError) as refused:
            venue.cloud.send(envelope)
        assert refused.value.status == HTTPStatus.CONFLICT
        hands.deliver(envelope, times=TIMES)

    # Once for each of the devices that they name, however often they come.
    conflicts = sum(len(other.devices) for other in others)
    assert hands.contents() == before
    assert hands.refusals("command_refused").count((order.command.id, Reason.ID_CONFLICT)) == conflicts
    assert hands.ended(order) == (Outcome.SUCCEEDED, None)
    told = partial(_reasons_told, hands, order.command.id)
    wait_until(lambda: len(told()) >= conflicts, "the refusals at the cloud")
    assert told() == [Reason.ID_CONFLICT] * conflicts


def _reasons_told(hands: Hands, command: CommandId) -> list[JsonValue]:
    refused = hands.venue.cloud.told(EventType.REFUSED)
    return [each.data["reason"] for each in refused if each.data.get("command") == command]


@pytest.mark.threat("T16")
def test_what_is_sent_many_times_at_once_stands_in_the_queue_once(hands: Hands, keys: Keys) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk])
    before = hands.venue.cloud.hub().waiting

    with ThreadPoolExecutor(8) as senders:
        answers = list(senders.map(hands.venue.cloud.send, [order.envelope] * TIMES))

    assert {answer.id for answer in answers} == {order.command.id}
    assert hands.venue.cloud.hub().waiting == before + 1
