"""T5, T16: two issuers, the real queue, any order of delivery: the later word stands, and each acts once.

All 24 orders are tried on the flows (``tests/flows/test_admission_orders``); here a few, end to end.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy
from typing import Final

import pytest
from pydantic import JsonValue
from typing_extensions import override

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.core.envelope import unproven_payload
from edgeagent.ids import DeviceId, HubId, ReadingName
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.policies import sign_policy
from tests.attacks.obedient_television import FIRST, ObedientTelevision
from tests.support.agents_keys import Keys
from tests.support.agents_venue import HUB, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T4")]

TV: Final = DeviceId("tv-1")
PROFILE: Final = Path(__file__).parents[1] / "flows" / "television.toml"
OFF, VOLUME_20, INPUT_2, ON = range(4)
ASKED: Final[list[tuple[ActionName, Arguments]]] = [
    (ActionName.POWER, {"on": False}),
    (ActionName.VOLUME, {"level": 20}),
    (ActionName.INPUT, {"name": "HDMI 2"}),
    (ActionName.POWER, {"on": True}),
]
"""In the order in which they are signed."""
ORDERS: Final = [
    (OFF, VOLUME_20, INPUT_2, ON),
    (ON, INPUT_2, VOLUME_20, OFF),
    (VOLUME_20, ON, OFF, INPUT_2),
    (INPUT_2, OFF, ON, VOLUME_20),
]
TIMES: Final = 50


@dataclass(slots=True)
class TwoIssuers(Keys):
    """The keys of a venue in which the night shift may do what the desk may."""

    night: PrivateKey = field(default_factory=PrivateKey.new)

    @override
    def policy(self, hub: HubId) -> bytes:
        raw = unproven_payload(Keys.policy(self, hub))
        alone = decode(Policy, raw, limit=POLICY_BYTES)
        both = alone.roles["operators"].model_copy(update={"keys": frozenset({"desk", "night"})})
        changes = {
            "keys": alone.keys | {"night": self.night.public.hex()},
            "roles": alone.roles | {"operators": both},
        }
        return sign_policy(alone.model_copy(update=changes), [self.root])


class Evening:
    """A venue with a television, and its two issuers."""

    def __init__(self, venue: Venue, tv: ObedientTelevision, keys: TwoIssuers) -> None:
        self.venue = venue
        self.tv = tv
        clock = ProvenClock(SystemTime())
        self._issuers = {"desk": Issuer([keys.desk], clock), "night": Issuer([keys.night], clock)}

    def sign(self, who: str, action: ActionName, arguments: Arguments) -> SignedCommand:
        """One of them signs a command for the television."""
        epoch = self.venue.cloud.epoch
        return self._issuers[who].sign(
            Intent(hub=HUB, epoch=epoch, devices=[TV], action=action, arguments=arguments)
        )

    def knows(self) -> dict[str, JsonValue]:
        """What the hub holds the television to be."""
        readings = self.venue.agent.device(TV).readings
        return {name: readings[ReadingName(name)].value for name in FIRST if ReadingName(name) in readings}

    def begins_again(self) -> None:
        """The television is as at first, and the hub knows."""
        self.tv.is_as_at_first()
        wait_until(lambda: self.knows() == FIRST, "the television to be as at first")


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evening]:
    """One for all stories."""
    keys = TwoIssuers()
    with (
        Venue(tmp_path_factory.mktemp("venue"), keys=keys) as venue,
        ObedientTelevision(venue.broker, TV) as tv,
    ):
        own = venue.agent.folder / "own"
        own.mkdir()
        copy(PROFILE, own)
        sections = venue.agent.config.read_text("utf-8")
        venue.agent.config.write_text(f'{sections}[profiles]\ndirectory = "own"\n', "utf-8")
        venue.open()
        venue.agent.admit_by_hand(TV, "television", topic=TV)
        tv.says("lwt", b"online")
        yield Evening(venue, tv, keys)
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None


def expected(order: Sequence[int], who: Sequence[str]) -> dict[str, JsonValue]:
    """What the television shows at the end: of one issuer's two words about power the later one stands."""
    shows = dict(FIRST)
    for place, which in enumerate(order):
        if which == OFF and who[OFF] == who[ON] and ON in order[:place]:
            continue
        if which in {OFF, ON}:
            shows["power"] = which == ON
        elif which == VOLUME_20:
            shows["volume"] = 20
        elif shows["power"]:
            # No television changes its input while it is off.
            shows["input"] = "HDMI 2"
    return shows


@pytest.mark.threat("T5")
@pytest.mark.parametrize(
    "who", [("desk", "night", "desk", "desk"), ("desk", "desk", "night", "night")], ids="-".join
)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_whatever_the_order_of_delivery_the_later_word_of_each_issuer_stands(
    evening: Evening, order: tuple[int, ...], who: tuple[str, ...]
) -> None:
    evening.begins_again()
    signed = [
        evening.sign(name, action, arguments) for name, (action, arguments) in zip(who, ASKED, strict=True)
    ]
    ends: dict[int, Receipt] = {}

    for which in order:
        evening.venue.cloud.send(signed[which].envelope)
        ends[which] = evening.venue.end_of(signed[which])

    assert evening.tv.shows == expected(order, who)
    wait_until(lambda: evening.knows() == expected(order, who), "the hub to know")
    # What the television shows already needs no message.
    sent = [end for end in ends.values() if (end.outcome, end.reason) == (Outcome.SUCCEEDED, None)]
    assert len(evening.tv.effects) == len(set(evening.tv.effects)) == len(sent)
    if who[OFF] == who[ON] and order.index(ON) < order.index(OFF):
        assert (ends[OFF].outcome, ends[OFF].reason) == (Outcome.REFUSED, Reason.SUPERSEDED)


@pytest.mark.threat("T5", "T16")
def test_what_was_overtaken_stays_so_however_often_it_comes_again(evening: Evening) -> None:
    evening.begins_again()
    off = evening.sign("desk", ActionName.POWER, {"on": False})
    first = evening.sign("night", ActionName.POWER, {"on": False})
    on = evening.sign("desk", ActionName.POWER, {"on": True})
    for order in (first, on):
        evening.venue.cloud.send(order.envelope)
        assert evening.venue.end_of(order).outcome is Outcome.SUCCEEDED

    with ThreadPoolExecutor(4) as senders:
        list(senders.map(evening.venue.cloud.send, [off.envelope, first.envelope, on.envelope] * TIMES))
    end = evening.venue.end_of(off)

    assert (end.outcome, end.reason) == (Outcome.REFUSED, Reason.SUPERSEDED)
    assert evening.tv.effects == [("power", False), ("power", True)]
    assert evening.tv.shows == FIRST
    evening.venue.agent.kill()
    evening.venue.agent.start()
    evening.venue.agent.wait_for_broker()
    last = evening.sign("night", ActionName.VOLUME, {"level": 30})
    evening.venue.cloud.send(last.envelope)
    assert evening.venue.end_of(last).outcome is Outcome.SUCCEEDED
    assert evening.tv.effects == [("power", False), ("power", True), ("volume", 30)]


@pytest.mark.threat("T16")
def test_what_two_issuers_send_many_times_at_once_is_done_once(evening: Evening) -> None:
    evening.begins_again()
    loud = evening.sign("desk", ActionName.VOLUME, {"level": 40})
    other = evening.sign("night", ActionName.INPUT, {"name": "HDMI 2"})

    with ThreadPoolExecutor(8) as senders:
        list(senders.map(evening.venue.cloud.send, [loud.envelope, other.envelope] * TIMES))
    ends = [evening.venue.end_of(order) for order in (loud, other)]

    assert [end.outcome for end in ends] == [Outcome.SUCCEEDED] * 2
    assert sorted(evening.tv.effects) == [("input", "HDMI 2"), ("volume", 40)]
    found = query(evening.venue.agent.database, "SELECT command, count(*) FROM inbox GROUP BY command")
    assert {count for _, count in found} == {1}
