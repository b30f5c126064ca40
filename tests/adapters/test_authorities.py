"""An authority of one's own is believed by every Python alike, however plainly it was made."""

import asyncio
import ssl
from pathlib import Path

import pytest

from edgeagent.adapters.artifacts.trusting import trusting
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.adapters.cloud.tls import Trust
from edgeagent.adapters.mqtt.settings import TlsSettings
from edgeagent.contracts.mqtt import LinkUp
from tests.support.brokers import Mosquitto
from tests.support.certificates import Authority
from tests.support.ear import Ear, make_bus, running

pytestmark = pytest.mark.requirement("R8")


@pytest.fixture(autouse=True)
def python_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked by default from that version on."""
    before = ssl.create_default_context

    def strict(
        purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH,
        *,
        cafile: Path | None = None,
        cadata: str | None = None,
    ) -> ssl.SSLContext:
        context = before(purpose, cafile=cafile, cadata=cadata)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


@pytest.fixture
def plain(tmp_path: Path) -> Authority:
    """As ``openssl req -x509`` makes it."""
    return Authority(tmp_path / "ca", says_its_use=False)


async def agreed(context: ssl.SSLContext, certificate: tuple[Path, Path]) -> bool:
    """Whether a server with that certificate is believed."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(*certificate)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=ours)
    async with server:
        port = server.sockets[0].getsockname()[1]
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except ssl.SSLCertVerificationError:
            return False
        writer.close()
        return True


async def test_the_queue_and_a_source_of_files_are_believed(plain: Authority) -> None:
    certificate = plain.issues("server", "127.0.0.1")
    cloud = CloudSettings(url="https://127.0.0.1", ca_file=plain.certificate)

    assert not await agreed(ssl.create_default_context(cafile=plain.certificate), certificate)
    assert await agreed(await Trust(cloud).context(), certificate)
    assert await agreed(trusting(plain.certificate.read_bytes()), certificate)


async def test_the_broker_is_believed(plain: Authority, tmp_path: Path) -> None:
    certificate, key = plain.issues("broker", "127.0.0.1")
    with Mosquitto(tmp_path, options=[f"certfile {certificate}", f"keyfile {key}"]) as broker:
        bus = make_bus(broker.port, tls=TlsSettings(ca=plain.certificate))
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)


async def test_another_authority_is_still_none_and_the_systems_are_held_to_all_of_it(
    plain: Authority, tmp_path: Path
) -> None:
    certificate = Authority(tmp_path / "other", says_its_use=False).issues("server", "127.0.0.1")
    systems = await Trust(CloudSettings(url="https://127.0.0.1")).context()

    assert not await agreed(trusting(plain.certificate.read_bytes()), certificate)
    assert systems.verify_flags & trusting(None).verify_flags & ssl.VERIFY_X509_STRICT
