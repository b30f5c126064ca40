"""Whom the hub believes to be its queue."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.artifacts.trusting import trusting
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.settings import CloudSettings, Token
from edgeagent.adapters.cloud.tls import Trust
from edgeagent.ids import hub_id
from edgeagent.issuer.client import IssuerClient
from edgeagent.ports.links import LinkError, Trouble
from tests.issuer.building import ManualClock, real_clock, records
from tests.support.portals import Authority, Portal, answers, proves, server_context
from tests.support.queue_server import QueueServer

HUB = hub_id("venue-7")
TOKEN = Token("a-token-of-thirty-two-characters")


@asynccontextmanager
async def queue_at(url: str, **further: Path | str) -> AsyncIterator[HttpsQueue]:
    settings = CloudSettings(url=url, token=TOKEN, **further)  # type: ignore[arg-type]
    queue = HttpsQueue(settings, HUB, ManualClock())
    try:
        yield queue
    finally:
        await queue.close()


async def trouble(queue: HttpsQueue) -> LinkError:
    with pytest.raises(LinkError) as failed:
        await queue.upload(records(HUB, 1))
    return failed.value


@pytest.mark.requirement("U4")
async def test_the_real_server_over_tls_is_believed_by_its_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with QueueServer(tmp_path / "queue", certificate=authority.issues("queue")) as server:
        hub = server.new_hub()
        queue = HttpsQueue(server.settings(hub.token, ca_file=authority.file), hub.id, real_clock())
        stranger = HttpsQueue(server.settings(hub.token), hub.id, real_clock())
        reading = server.settings(server.issuer_token, ca_file=authority.file)

        answer = await queue.upload(records(hub.id, 1, 2))
        refused = await trouble(stranger)
        async with IssuerClient(reading, real_clock()) as cloud:
            [record, *_] = (await cloud.hub(hub.id, epoch=records(hub.id, 1).epoch)).streams
        seen, unseen = queue.certificate_until, stranger.certificate_until
        # Told of another authority and token while it runs, it goes by these from then on.
        stranger.adopt(server.settings(hub.token, ca_file=authority.file))
        again = await stranger.upload(records(hub.id, 1, 2))
        stranger.adopt(server.settings("a-token-that-nobody-has-given", ca_file=authority.file))
        unknown = await trouble(stranger)
        await queue.close()
        await stranger.close()

    assert answer.taken == again.taken == {1, 2}
    assert (refused.trouble, unknown.trouble) == (Trouble.TLS, Trouble.LOGIN)
    assert record.stored == 2
    # When the server's certificate ends is known from then on, for health.
    assert seen is not None
    assert seen > real_clock().wall().best
    assert unseen is None


@pytest.mark.requirement("U4", "R8")
@pytest.mark.parametrize(
    ("how", "kind", "told"),
    [
        pytest.param({"valid": -timedelta(days=1)}, Trouble.TLS_EXPIRED, "expired", id="expired"),
        pytest.param({"host": "elsewhere.example"}, Trouble.TLS, "localhost", id="another host's"),
    ],
)
async def test_a_certificate_that_is_not_in_order_is_refused_and_nothing_is_sent(
    tmp_path: Path, how: dict[str, object], kind: Trouble, told: str
) -> None:
    authority = Authority(tmp_path)
    files = authority.issues("queue", **how)  # type: ignore[arg-type]
    async with (
        Portal(proves(), tls=server_context(files)) as portal,
        queue_at(portal.url, ca_file=authority.file) as queue,
    ):
        failed = await trouble(queue)

    assert failed.trouble is kind
    assert told in str(failed)
    assert portal.asked == []


@pytest.mark.requirement("U4")
async def test_another_authority_is_not_believed(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with (
        Portal(proves(), tls=server_context(theirs.issues("queue"))) as portal,
        queue_at(portal.url, ca_file=ours.file) as queue,
    ):
        failed = await trouble(queue)

    assert failed.trouble is Trouble.TLS
    assert portal.asked == []


@pytest.mark.requirement("R8")
async def test_renewed_files_count_without_a_restart(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.file.read_bytes())
    async with (
        Portal(proves(), tls=server_context(new.issues("queue"))) as portal,
        queue_at(portal.url, ca_file=trusted) as queue,
    ):
        before = await trouble(queue)
        trusted.write_bytes(b"")
        halfway = await trouble(queue)
        trusted.write_bytes(new.file.read_bytes())

        answer = await queue.upload(records(HUB, 1))

    assert (before.trouble, halfway.trouble) == (Trouble.TLS, Trouble.TLS)
    assert answer.taken == {1}


@pytest.mark.requirement("R8", "H5")
async def test_our_own_certificate_is_shown_and_its_renewal_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    strict = server_context(authority.issues("queue"), clients=authority.file)
    certificate, key = tmp_path / "hub.pem", tmp_path / "hub.key"
    stranger = Authority(tmp_path / "strangers").issues("hub")
    async with Portal(proves(), tls=strict) as portal:
        async with queue_at(portal.url, ca_file=authority.file) as queue:
            without = await trouble(queue)
        _install(stranger, certificate, key)
        async with queue_at(portal.url, ca_file=authority.file, certificate=certificate, key=key) as queue:
            foreign = await trouble(queue)
            _install(authority.issues("hub"), certificate, key)

            answer = await queue.upload(records(HUB, 1))

            certificate.unlink()
            gone = await trouble(queue)

    # A server that wants none of us may reset the connection before we read why.
    assert {without.trouble, foreign.trouble} <= {Trouble.TLS, Trouble.UNREACHABLE}
    assert (gone.trouble, "hub.pem" in str(gone)) == (Trouble.TLS, True)
    assert answer.taken == {1}
    assert len(portal.asked) == 1


def _install(files: tuple[Path, Path], certificate: Path, key: Path) -> None:
    certificate.write_bytes(files[0].read_bytes())
    key.write_bytes(files[1].read_bytes())


@pytest.mark.requirement("R8")
async def test_plain_http_where_tls_is_expected_is_tls_trouble(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with QueueServer(tmp_path / "queue") as server:
        async with queue_at(f"https://localhost:{server.port}", ca_file=authority.file) as queue:
            failed = await trouble(queue)

    assert failed.trouble is Trouble.TLS


@pytest.mark.requirement("R8", "A2")
async def test_a_proxy_is_used_when_it_is_set_and_its_refusals_are_told() -> None:
    async with Portal(proves()) as portal:
        proxy = portal.url.replace("http://", "http://me:hunter2@")
        async with queue_at("http://127.0.0.1:9", proxy=proxy) as queue:
            answer = await queue.upload(records(HUB, 1))
    async with Portal(answers("407 Proxy Authentication Required")) as closed:
        async with queue_at("http://127.0.0.1:9", proxy=closed.url) as queue:
            plain = await trouble(queue)
        proxy = closed.url.replace("http://", "http://me:hunter2@")
        async with queue_at("https://queue.example", proxy=proxy) as queue:
            tunnel = await trouble(queue)
    async with Portal(answers("403 Forbidden")) as strict:
        proxy = strict.url.replace("http://", "http://me:hunter2@")
        async with queue_at("https://queue.example", proxy=proxy) as queue:
            forbidden = await trouble(queue)

    assert answer.taken == {1}
    assert portal.asked[0].path.startswith("http://127.0.0.1:9/v1/hubs/")
    assert (plain.trouble, tunnel.trouble) == (Trouble.LOGIN, Trouble.LOGIN)
    assert forbidden.trouble is Trouble.UNREACHABLE
    assert all("hunter2" not in str(failed) for failed in (tunnel, forbidden))


@pytest.mark.requirement("R8")
async def test_nothing_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Portal(proves()) as portal, Portal(answers("503 Busy")) as elsewhere:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, elsewhere.url)
        async with queue_at(portal.url) as queue:
            answer = await queue.upload(records(HUB, 1))

    assert answer.taken == {1}
    assert elsewhere.asked == []


async def test_old_tls_is_not_spoken_whatever_the_interpreter_would() -> None:
    queue = await Trust(CloudSettings(url="https://queue.example", token=TOKEN)).context()

    assert queue.minimum_version is ssl.TLSVersion.TLSv1_2
    assert trusting(None).minimum_version is ssl.TLSVersion.TLSv1_2
