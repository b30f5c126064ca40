"""Looking at what the broker holds retained, over a connection of its own."""

import pytest

from edgeagent.contracts.mqtt import LinkUp, Session
from edgeagent.ports.links import LinkError, Trouble
from tests.support.ear import Ear, make_bus, running
from tests.support.scripted_broker import SUBSCRIBE, Peer, ScriptedBroker, publish


@pytest.mark.requirement("R7")
async def test_a_look_at_more_than_it_takes_ends_with_what_it_has_seen() -> None:
    async def holds_much(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        await peer.sends(*(publish("cmnd/1", b"", n, retain=True) for n in range(1, 5001)))
        await peer.answers()

    async with ScriptedBroker(holds_much) as broker:
        bus = make_bus(broker.port)

        found = await bus.retained(["cmnd/#"])

    assert len(found) == 4096
    assert broker.peers[0].client_id == "edgeagent-hub-1-look"
    assert broker.peers[0].seen[0].body[7] & 0x02  # Clean Start


async def test_a_look_that_the_broker_does_not_allow_is_told() -> None:
    async def refuses(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE), 0x87)
        await peer.answers()

    async with ScriptedBroker(refuses) as broker:
        bus = make_bus(broker.port)

        with pytest.raises(LinkError) as caught:
            await bus.retained(["cmnd/#"])

        assert caught.value.trouble is Trouble.LOGIN
        assert await bus.dropped() is None


async def test_a_broker_that_hangs_up_on_a_look_costs_the_sessions_nothing() -> None:
    async def serves(peer: Peer) -> None:
        await peer.greets()
        await peer.answers()

    async def hangs_up(peer: Peer) -> None:
        await peer.greets()
        await peer.answers(until=SUBSCRIBE)

    async with ScriptedBroker(serves, serves, hangs_up) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert await bus.dropped() is None
            assert all(bus.state(session).connected for session in Session)
