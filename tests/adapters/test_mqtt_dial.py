"""The socket that a connection starts with."""

import socket

import pytest

from edgeagent.adapters.mqtt.addresses import Address, in_turn, resolve
from edgeagent.adapters.mqtt.dial import dial
from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.ports.links import LinkError, Trouble


async def test_it_does_not_block_and_holds_no_acknowledgement_back() -> None:
    """With Nagle's algorithm a PUBACK waits for up to 40 ms."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = await dial(MqttSettings(port=listener.getsockname()[1]), resolve)
        with dialled:
            assert not dialled.getblocking()
            assert dialled.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
async def test_a_name_that_is_none_is_told_and_raises_nothing_else(host: str) -> None:
    with pytest.raises(LinkError) as caught:
        await dial(MqttSettings(host=host), resolve)

    assert caught.value.trouble is Trouble.UNREACHABLE


def test_address_families_take_turns_and_their_number_is_bounded() -> None:
    six = [Address(socket.AF_INET6, (f"fe80::{n}", 1, 0, 0)) for n in range(9)]
    four = [Address(socket.AF_INET, (f"10.0.0.{n}", 1)) for n in range(2)]

    assert in_turn([*six, *four]) == [six[0], four[0], six[1], four[1], six[2], six[3]]
