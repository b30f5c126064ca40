"""Sequences of commands, in whatever order and however often they come."""

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.gate.verdict import Accept, Duplicate, Refuse
from edgeagent.ids import HubId
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import INPUT, OTHER_TV, POWER, SECOND, TOGGLE, VOLUME

pytestmark = pytest.mark.requirement("T4")

OFF, VOLUME_20, INPUT_2, ON = range(4)
ISSUERS: Final = [("desk", *others) for others in product(("desk", "night"), repeat=3)]
"""Who signs each of the four; the other half only has the names exchanged."""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


def expected(order: Sequence[int], who: tuple[str, ...], *, at_once: bool) -> dict[str, JsonValue]:
    """What the television shows in the end: the later of one issuer's two words about power stands alone."""
    left = list(order)
    one_issuer = who[OFF] == who[ON]
    if one_issuer and (at_once or order.index(ON) < order.index(OFF)):
        left.remove(OFF)
    shows: dict[str, JsonValue] = {"power": True, "volume": 10, "input": "HDMI 1"}
    for which in left:
        if which in {OFF, ON}:
            shows["power"] = which == ON
        elif which == VOLUME_20:
            shows["volume"] = 20
        elif shows["power"]:
            # No television changes its input while it is off.
            shows["input"] = "HDMI 2"
    return shows


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [True, False], ids=["worked when all are there", "worked as they come"])
@pytest.mark.parametrize("who", ISSUERS, ids="-".join)
async def test_all_orders_of_off_volume_input_and_on_end_as_their_sequences_say(
    hub: Hub,
    tv: Television,
    who: tuple[str, ...],
    at_once: bool,  # noqa: FBT001 - a column of the table
) -> None:
    keys = {"desk": hub.keys.desk, "night": hub.keys.night}
    for order in permutations(range(4)):
        tv.reports(power=True, volume=10, input="HDMI 1")
        await hub.settles()
        hub.passes(SECOND)
        commands = [
            hub.command(POWER, on=False),
            hub.command(VOLUME, level=20),
            hub.command(INPUT, name="HDMI 2"),
            hub.command(POWER, on=True),
        ]
        signed = [hub.signed(one, keys[name]) for one, name in zip(commands, who, strict=True)]
        tv.effects.clear()

        for which in order:
            await hub.admits(signed[which])
            if not at_once:
                await hub.works_all()
        await hub.works_all()

        shows = expected(order, who, at_once=at_once)
        if at_once and len(set(who)) > 1:
            # Issuers take turns: whether the television was on when its input's turn came, the receipt says.
            receipt = await hub.ended(commands[INPUT_2])
            assert receipt.reason in {None, Reason.UNFIT_STATE}
            shows["input"] = "HDMI 2" if receipt.outcome is Outcome.SUCCEEDED else "HDMI 1"
        assert tv.shows == shows, order
        assert len(set(tv.effects)) == len(tv.effects), order
        assert all([await hub.receipt(command) for command in commands]), order


@pytest.mark.requirement("I1")
@pytest.mark.parametrize("signer", ["desk", "night"])
async def test_an_operation_that_is_delivered_three_times_acts_once_and_a_new_one_acts_again(
    hub: Hub, tv: Television, signer: str
) -> None:
    keys = {"desk": hub.keys.desk, "night": hub.keys.night}

    for key in (keys["desk"], keys[signer], keys["desk"]):
        await hub.admits(hub.signed(hub.command(TOGGLE, operation="ticket-7"), key))
        await hub.works_all()
    once = list(tv.effects)
    [again] = await hub.admits(hub.command(TOGGLE, operation="ticket-8"))
    await hub.works_all()

    assert [name for name, _ in once] == ["toggle"]
    assert isinstance(again, Accept)
    assert [name for name, _ in tv.effects] == ["toggle", "toggle"]


@pytest.mark.requirement("I1")
async def test_an_operation_that_is_delivered_three_times_together_acts_once(
    hub: Hub, tv: Television
) -> None:
    commands = [hub.command(TOGGLE, operation="ticket-7") for _ in range(3)]

    verdicts = await hub.admits(*commands)
    await hub.works_all()

    assert isinstance(verdicts[0], Accept)
    assert [verdict.reason for verdict in verdicts[1:] if isinstance(verdict, Refuse)] == [
        Reason.OPERATION_RUNNING
    ] * 2
    assert [name for name, _ in tv.effects] == ["toggle"]


@pytest.mark.requirement("T1", "R5")
async def test_a_recorded_command_does_nothing_more_by_whatever_way_it_comes_again(
    hub: Hub, tv: Television
) -> None:
    other = await hub.television(OTHER_TV)
    envelope = hub.signed(hub.command(TOGGLE))
    await hub.admits(envelope)
    await hub.works_all()
    told = await hub.records(EventType.RECEIPT)
    done, sent = list(tv.effects), len(hub.bus.published)
    await hub.uploads(*(number for number, _ in told))

    replays = [verdict for _ in range(100) for verdict in await hub.admits(envelope)]
    await hub.starts_anew()
    replays += await hub.admits(*[envelope] * 100)
    redirected = await hub.admits(edited(envelope, devices=[OTHER_TV]), edited(envelope, hub="venue-8"))
    elsewhere = await hub.admits(hub.command(TOGGLE, hub=HubId("venue-8")))
    await hub.works_all(Tier.LOW, Tier.MEDIUM)

    assert all(isinstance(verdict, Duplicate) for verdict in replays)
    again = [
        each for each in await hub.records(EventType.RECEIPT) if each[1]["command"] == told[0][1]["command"]
    ]
    assert again == told
    assert [verdict.reason for verdict in redirected if isinstance(verdict, Refuse)] == [
        Reason.BAD_SIGNATURE
    ] * 2
    assert [verdict.reason for verdict in elsewhere if isinstance(verdict, Refuse)] == [Reason.WRONG_HUB]
    assert (tv.effects, other.effects) == (done, [])
    assert [message for message in hub.bus.published[sent:] if "/set/" in message.topic] == []


def edited(envelope: bytes, **changes: JsonValue) -> bytes:
    """The envelope with other fields in its payload, and the signature that it had."""
    outer = json.loads(envelope)
    payload = json.loads(b64decode(outer["payload"])) | changes
    outer["payload"] = b64encode(json.dumps(payload).encode()).decode()
    return json.dumps(outer).encode()
