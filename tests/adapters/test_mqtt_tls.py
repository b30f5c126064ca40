"""The way to a broker over TLS: certificates are always checked, and read anew for each connection."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.mqtt.bus import MqttBus
from edgeagent.adapters.mqtt.settings import TlsSettings
from edgeagent.contracts.mqtt import LinkDown, LinkUp, Outgoing, PublishResult, Session, Subscription
from edgeagent.ids import topic, topic_filter
from edgeagent.ports.links import LinkError, Trouble
from tests.support.brokers import Mosquitto, free_port
from tests.support.certificates import Authority
from tests.support.device import Device
from tests.support.ear import Ear, make_bus, running
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R8")

TELEMETRY = Subscription(topic_filter("tele/#"), Session.TELEMETRY)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


class TlsBroker(Mosquitto):
    """mosquitto with TLS on its port, and a plain listener for devices on another."""

    def __init__(
        self, folder: Path, authority: Authority, certificate: tuple[Path, Path], *, asks: bool = False
    ) -> None:
        self.plain_port = free_port()
        super().__init__(
            folder,
            options=[
                f"cafile {authority.certificate}",
                f"certfile {certificate[0]}",
                f"keyfile {certificate[1]}",
                f"require_certificate {str(asks).lower()}",
                f"listener {self.plain_port} 127.0.0.1",
                "allow_anonymous true",
            ],
        )


async def why_not(bus: MqttBus, trouble: Trouble = Trouble.TLS) -> str:
    """Run a bus until it has failed for once, in this way; why it did."""
    async with running(bus):
        await eventually(lambda: bus.state(Session.CONTROL).attempts)
        with pytest.raises(LinkError) as caught:
            await bus.publish(Outgoing(topic=topic("cmnd/1"), payload=b"ON", expires_in=5))
        assert caught.value.trouble is trouble
        return bus.state(Session.CONTROL).why


async def test_a_broker_of_our_own_authority_is_trusted_and_a_burst_comes_whole(
    tmp_path: Path, authority: Authority
) -> None:
    """TLS hands out records, which the socket knows nothing of once they are decrypted."""
    payloads = [b"%d" % number + b" " * 1000 for number in range(3000)]
    with (
        TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker,
        Device(broker.plain_port) as device,
    ):
        bus = make_bus(broker.port, tls=TlsSettings(ca=authority.certificate), telemetry_window=5000)
        await bus.subscribe([TELEMETRY])
        async with running(bus):
            ear = Ear(bus)
            await ear.sees_links(LinkUp)
            saying = asyncio.create_task(asyncio.to_thread(device.says_all, "tele/1", payloads))
            await ear.until(lambda: len(ear.messages) == len(payloads))
            await saying
            bus.acknowledge(ear.messages)

            command = Outgoing(topic=topic("cmnd/1"), payload=b"ON", expires_in=5)
            assert await bus.publish(command) is PublishResult.NOBODY_LISTENS

    assert [message.payload for message in ear.messages] == payloads


async def test_a_broker_of_another_authority_is_refused(tmp_path: Path, authority: Authority) -> None:
    other = Authority(tmp_path / "other")
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        why = await why_not(make_bus(broker.port, tls=TlsSettings(ca=other.certificate)))

    assert "certificate refused" in why


async def test_without_an_authority_of_its_own_the_systems_are_asked(
    tmp_path: Path, authority: Authority
) -> None:
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        why = await why_not(make_bus(broker.port, tls=TlsSettings()))

    assert "certificate refused" in why


async def test_a_certificate_for_another_name_is_refused_unless_that_name_is_expected(
    tmp_path: Path, authority: Authority
) -> None:
    tls = TlsSettings(ca=authority.certificate)
    with TlsBroker(tmp_path, authority, authority.issues("broker", "hub.example")) as broker:
        why = await why_not(make_bus(broker.port, tls=tls))
        bus = make_bus(broker.port, tls=replace(tls, server_name="hub.example"))
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

    assert "IP address mismatch" in why


@pytest.mark.parametrize("name", ["hub..lan", ".hub.lan", "h" * 64, "hub\0.lan"])
async def test_a_name_that_no_certificate_can_have_is_a_failure_like_others_and_tried_again(
    tmp_path: Path, authority: Authority, name: str
) -> None:
    tls = TlsSettings(ca=authority.certificate, server_name=name)
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        why = await why_not(make_bus(broker.port, tls=tls))

    assert f"{name!r} is no name that a certificate can have" in why


@pytest.mark.parametrize(
    ("begins", "trouble", "word"),
    [
        pytest.param(-2, Trouble.TLS_EXPIRED, "expired", id="over"),
        pytest.param(1, Trouble.CLOCK, "not yet valid", id="to come"),
    ],
)
async def test_a_certificate_out_of_its_time_is_refused_with_a_word_about_our_clock(
    tmp_path: Path, authority: Authority, begins: int, trouble: Trouble, word: str
) -> None:
    day = timedelta(days=1)
    certificate = authority.issues("broker", "127.0.0.1", begins=begins * day, ends=(begins + 1) * day)
    with TlsBroker(tmp_path, authority, certificate) as broker:
        why = await why_not(make_bus(broker.port, tls=TlsSettings(ca=authority.certificate)), trouble)

    assert word in why
    assert "clock" in why


async def test_a_certificate_of_ours_is_shown_and_without_one_we_are_not_let_in(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.issues("agent", "agent")
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1"), asks=True) as broker:
        tls = TlsSettings(ca=authority.certificate)
        why = await why_not(make_bus(broker.port, tls=tls))
        bus = make_bus(broker.port, tls=replace(tls, certificate=certificate, key=key))
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

    assert "TLS failed" in why


async def test_a_renewed_certificate_is_taken_up_at_the_next_attempt(
    tmp_path: Path, authority: Authority
) -> None:
    expired = authority.issues("agent", "agent", begins=timedelta(days=-9), ends=timedelta(days=-1))
    tls = TlsSettings(ca=authority.certificate, certificate=expired[0], key=expired[1])
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1"), asks=True) as broker:
        bus = make_bus(broker.port, tls=tls)
        async with running(bus):
            await eventually(lambda: bus.state(Session.CONTROL).attempts)

            renewed = authority.issues("agent", "agent")
            await Ear(bus).sees_links(LinkUp)

    assert renewed == expired  # the same two files


@pytest.mark.parametrize("broken", ["ca", "certificate", "key"])
async def test_a_file_that_is_missing_or_broken_is_told_and_found_when_it_is_mended(
    tmp_path: Path, authority: Authority, broken: str
) -> None:
    certificate, key = authority.issues("agent", "agent")
    file = {"ca": authority.certificate, "certificate": certificate, "key": key}[broken]
    content = file.read_bytes()
    tls = TlsSettings(ca=authority.certificate, certificate=certificate, key=key)
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        bus = make_bus(broker.port, tls=tls)
        file.write_bytes(b"not what it should be")
        why = await why_not(bus)
        file.unlink()
        assert "No such file" in await why_not(make_bus(broker.port, tls=tls))

        async with running(bus):
            file.write_bytes(content)
            await Ear(bus).sees_links(LinkUp)

    assert "cannot use the certificate files" in why


async def test_an_encrypted_key_is_refused_rather_than_asked_about_on_a_terminal(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.issues("agent", "agent", password=b"secret")
    tls = TlsSettings(ca=authority.certificate, certificate=certificate, key=key)
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        assert "cannot use the certificate files" in await why_not(make_bus(broker.port, tls=tls))


async def test_a_broker_that_speaks_plain_tcp_is_not_spoken_to(tmp_path: Path, authority: Authority) -> None:
    with Mosquitto(tmp_path) as broker:
        why = await why_not(make_bus(broker.port, tls=TlsSettings(ca=authority.certificate)))

    assert "edgeagent" not in broker.log
    assert "TLS failed" in why


async def test_a_handshake_that_gets_no_answer_ends_in_time(tmp_path: Path, authority: Authority) -> None:
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        async with Proxy(broker.host, broker.port) as proxy:
            proxy.mode = Mode.BLACKHOLE
            tls = TlsSettings(ca=authority.certificate)
            bus = make_bus(proxy.port, tls=tls, connect_timeout=timedelta(milliseconds=100))
            async with running(bus):
                await eventually(lambda: "no answer" in bus.state(Session.CONTROL).why)

                proxy.mode = Mode.PASS
                await Ear(bus).sees_links(LinkUp)


async def test_a_link_that_passes_byte_after_byte_carries_tls(tmp_path: Path, authority: Authority) -> None:
    with TlsBroker(tmp_path, authority, authority.issues("broker", "127.0.0.1")) as broker:
        async with Proxy(broker.host, broker.port) as proxy:
            proxy.mode = Mode.SLOW
            bus = make_bus(proxy.port, tls=TlsSettings(ca=authority.certificate))
            async with running(bus):
                ear = Ear(bus)
                await ear.sees_links(LinkUp)

                proxy.mode = Mode.RESET
                await ear.sees_links(LinkDown)
