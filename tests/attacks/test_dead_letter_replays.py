"""T47: a dead letter that runs again is judged again by everything, and nobody runs all of them by mistake.

Three commands have failed and lie there. One expires meanwhile, one's key is revoked: whoever replays them is
told so, and nothing is sent. The third is a new run under its own id.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.issuer.commands import SignedCommand
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.policies import sign_policy
from tests.attacks.wrong_hands import Hands, in_wrong_hands
from tests.support.agents_keys import Keys
from tests.support.agents_venue import HUB
from tests.support.brokers import wait_until
from tests.support.stores import query
from tests.support.stubborn_lamps import OBEYS, StubbornLamps

ON: Final = {"on": True}
SOON: Final = timedelta(seconds=15)

pytestmark = [pytest.mark.slow, pytest.mark.threat("T47"), pytest.mark.requirement("D1", "D2", "D3")]


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    """A venue."""
    with in_wrong_hands(tmp_path) as running:
        yield running


@pytest.fixture
def lamps(hands: Hands) -> Iterator[StubbornLamps]:
    """Lamps that say no, for now."""
    with StubbornLamps(hands.venue.broker, 6) as there:
        there.are_admitted(hands.venue.agent)
        yield there


def buries(hands: Hands, order: SignedCommand) -> int:
    """Have a command fail; the number of its dead letter."""
    hands.deliver(order.envelope)
    assert hands.ended(order) == (Outcome.FAILED, Reason.DEVICE_REFUSED)
    [number] = [number for number, command in letters(hands) if command == order.command.id]
    return number


def letters(hands: Hands) -> list[tuple[int, str]]:
    """Number and command of the dead letters that wait."""
    listed = hands.venue.agent.run("--json", "dead-letters", "list")
    return [(each["number"], each["command"]) for each in json.loads(listed.stdout)["letters"]]


def replays(hands: Hands, *words: str) -> tuple[int, list[tuple[str, str | None]]]:
    """Have some run again: the exit status, and what became of each, with the reason."""
    said = hands.venue.agent.run("--json", "dead-letters", "replay", *words)
    found = json.loads(said.stdout).get("letters", []) if said.stdout else []
    return said.returncode, [(each["done"], each.get("reason")) for each in found]


def test_each_is_judged_again_and_a_good_one_is_a_new_run_under_its_id(
    hands: Hands, lamps: StubbornLamps
) -> None:
    desk, agent = hands.venue.keys.desk, hands.venue.agent
    first, second, third = (
        hands.sign(ActionName.POWER, ON, by=[desk], device=lamp, valid_for=valid_for)
        for lamp, valid_for in zip(
            lamps.devices, (SOON, timedelta(minutes=4), timedelta(minutes=4)), strict=False
        )
    )
    numbers = [str(buries(hands, order)) for order in (first, second, third)]
    assert lamps.heard == 3

    # Nobody said which.
    status, done = replays(hands)
    assert (status, done) != (0, [])
    assert lamps.heard == 3

    # Its time is over.
    wait_until(lambda: replays(hands, numbers[0], "--dry-run")[1] == [("refused", "expired")], "its end")
    before = hands.contents()
    assert replays(hands, numbers[0]) == (1, [("refused", "expired")])
    assert hands.contents() == before

    # A dry run does nothing.
    would = replays(hands, "--device", str(second.command.devices[0]), "--dry-run")
    assert would == (0, [("queued", None)])
    assert hands.contents() == before

    # One that may: a new run of the same command.
    lamps.answer = OBEYS
    assert replays(hands, numbers[1]) == (0, [("queued", None)])
    runs = "SELECT ordinal, state FROM inbox WHERE command = '%s' ORDER BY ordinal"
    wait_until(
        lambda: query(agent.database, runs % second.command.id) == [(1, "failed"), (2, "succeeded")],
        "the second run to succeed",
    )
    assert lamps.heard == 4
    assert [number for number, _ in letters(hands)] == [int(numbers[0]), int(numbers[2])]
    status, done = replays(hands, numbers[1])
    assert status != 0
    assert lamps.heard == 4

    # Its key is revoked.
    assert agent.stop() == 0
    revokes(hands, desk)
    agent.start()
    agent.wait_for_broker()
    rows = hands.contents()["inbox"]
    assert replays(hands, "--action", "power") == (1, [("refused", "bad_signature")] * 2)
    assert hands.contents()["inbox"] == rows
    assert lamps.heard == 4


def revokes(hands: Hands, key: PrivateKey) -> None:
    """Give the hub, which is down, a newer policy that names another key in the place of one."""
    keys: Keys = hands.venue.keys
    rules = keys.rules(HUB)
    names = {
        name: PrivateKey.new().public.hex() if public == key.public.hex() else public
        for name, public in rules.keys.items()
    }
    newer = sign_policy(rules.model_copy(update={"version": 2, "keys": names}), [keys.root])
    (hands.venue.agent.folder / "policy.json").write_bytes(newer)


@pytest.mark.requirement("B2")
def test_while_its_breaker_is_open_none_of_many_runs_without_another_person(
    hands: Hands, lamps: StubbornLamps
) -> None:
    for lamp in lamps.devices:
        buries(hands, hands.sign(ActionName.POWER, ON, by=[hands.venue.keys.desk], device=lamp))
    tripped = hands.venue.agent.run("breakers", "trip", "power@desk", "--reason", "they all say no")
    assert tripped.returncode == 0, tripped.stderr
    lamps.answer = OBEYS

    _, done = replays(hands, "--action", "power")

    assert done == [("held", "needs_approval")] * len(lamps.devices)
    assert lamps.heard == len(lamps.devices)
