"""The queue serves the policy's repository to hubs, and judges by it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession
from yarl import URL

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.errors import ConfigurationError
from edgeagent.issuer.client import IssuerClient, RefusedByQueueError
from edgeagent.issuer.keys import PrivateKey, load_key
from edgeagent.issuer.policy_in_force import RepositoryPolicy
from edgeagent.issuer.repository.files import RepositoryFiles
from edgeagent.issuer.repository.policy_keys import without_key
from edgeagent.issuer.repository.publishing import Publisher
from edgeagent.issuer.repository.signing import Lifetimes
from edgeagent.issuer.settings import ServerSettings
from tests.issuer.building import batch, hello, order, real_clock
from tests.issuer.publishing import Issuing, Reader, days, issuing
from tests.issuer.raw import ask
from tests.support.queue_server import KnownHub, QueueServer

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Served:
    """An issuer whose repository a queue server serves."""

    issuer: Issuing
    server: QueueServer
    hub: KnownHub

    @property
    def repository(self) -> Path:
        return self.issuer.home / "venue" / "repository"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    issuer = issuing(tmp_path)
    with QueueServer(tmp_path / "queue", repository=tmp_path / "venue" / "repository") as server:
        yield Served(issuer, server, server.new_hub("venue-7"))


async def greet(server: QueueServer, hub: KnownHub) -> None:
    """Let the hub say hello."""
    queue = HttpsQueue(server.settings(hub.token), hub.id, real_clock())
    await queue.upload(batch(hub.id, [hello()]))
    await queue.close()


@pytest.mark.requirement("T2", "P2")
def test_a_hub_follows_the_policy_over_the_network_through_changes_of_keys(
    served: Served, tmp_path: Path
) -> None:
    hub = Reader.new(tmp_path / "hub", served.repository / "metadata" / "1.root.json")
    url = f"{served.server.url}/v1/policy"
    assert hub.fetch(url).version == 1

    folder = served.issuer.folder
    served.issuer.publisher.replace_role_key(["snapshot", "timestamp"], folder.new_key("online"))
    served.issuer.publisher.publish(served.issuer.policy(2))

    assert hub.fetch(url).version == 2


@pytest.mark.requirement("R7", "V5")
@pytest.mark.parametrize(
    "path",
    [
        "metadata/2.root.json",
        "metadata/root.json",
        "metadata/01.root.json",
        "metadata/%2e%2e%2f%2e%2e%2fonline%2fonline-1.pem",
        "metadata/..%2f..%2frevoked",
        "metadata/.lock",
        "metadata/timestamp.json%00",
        "metadata/" + "9" * 400 + ".root.json",
        "targets/policy.json",
        "targets/" + "0" * 64 + ".policy.json",
        "targets/%2e%2e%2fmetadata%2ftimestamp.json",
        "metadata/%2e%2e/targets",
    ],
)
async def test_only_names_of_the_layout_are_served(served: Served, path: str) -> None:
    async with (
        ClientSession() as session,
        session.get(URL(f"{served.server.url}/v1/policy/{path}", encoded=True)) as answer,
    ):
        body = await answer.text()

    assert answer.status == 404
    assert "PRIVATE" not in body


@pytest.mark.requirement("R7")
async def test_nothing_can_be_written_there(served: Served) -> None:
    for method in ("PUT", "POST", "DELETE"):
        reply = await ask(
            f"{served.server.url}/v1/policy/metadata/timestamp.json",
            token=served.server.issuer_token, method=method, body=b"{}",
        )  # fmt: skip
        assert reply.status == 405


async def test_a_server_without_a_repository_serves_none(tmp_path: Path) -> None:
    with QueueServer(tmp_path) as server:
        reply = await ask(f"{server.url}/v1/policy/metadata/timestamp.json", token=None, method="GET")

    assert (reply.status, reply.reason) == (404, "not_found")


@pytest.mark.requirement("V7", "T2")
async def test_the_gate_judges_by_the_policy_that_was_published_last(served: Served) -> None:
    await greet(served.server, served.hub)
    desk = load_key(served.issuer.home / "keys" / "desk.pem")
    async with IssuerClient(served.server.settings(served.server.issuer_token), real_clock()) as cloud:
        await cloud.send(order(served.hub.id, key=desk))
        with pytest.raises(RefusedByQueueError, match="bad_signature"):
            await cloud.send(order(served.hub.id, key=PrivateKey.new()))

        served.issuer.publisher.publish(
            without_key(served.issuer.policy(1), "desk", now=served.issuer.clock.wall().best)
        )

        with pytest.raises(RefusedByQueueError, match="bad_signature"):
            await cloud.send(order(served.hub.id, key=desk))
        till = load_key(served.issuer.home / "keys" / "till.pem")
        await cloud.send(order(served.hub.id, key=till))
        assert (await cloud.hub(served.hub.id)).waiting == 2


@pytest.mark.requirement("T2")
def test_while_the_repository_does_not_verify_the_earlier_policy_stays(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    files = RepositoryFiles(tmp_path / "venue" / "repository")
    policy = RepositoryPolicy(files)
    policy.load()
    issuer.publisher.publish(issuer.policy(2))
    timestamp = files.folder / "metadata" / "timestamp.json"
    good = timestamp.read_bytes()

    timestamp.write_bytes(b"{}")
    seen = policy.current()
    assert seen is not None
    assert seen.policy.version == 1
    timestamp.unlink()
    assert policy.current() == seen

    timestamp.write_bytes(good)
    now = policy.current()
    assert now is not None
    assert now.policy.version == 2
    assert now.until == issuer.made.trusted.expiries["timestamp"]


@pytest.mark.requirement("V7", "P2")
async def test_when_the_timestamp_has_ended_nothing_is_queued_until_it_is_renewed(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    issuer.clock.passes(days(-29))
    publisher = Publisher(issuer.folder, issuer.clock, Lifetimes(online=days(28)))
    publisher.refresh()
    with QueueServer(tmp_path / "queue", repository=tmp_path / "venue" / "repository") as server:
        hub = server.new_hub("venue-7")
        await greet(server, hub)
        desk = load_key(tmp_path / "keys" / "desk.pem")
        async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
            with pytest.raises(RefusedByQueueError, match="policy_expired"):
                await cloud.send(order(hub.id, key=desk))
            assert (await cloud.hub(hub.id)).waiting == 0

            issuer.clock.passes(days(29))
            publisher.refresh()

            await cloud.send(order(hub.id, key=desk))


def test_a_repository_that_is_none_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no repository"):
        RepositoryPolicy(RepositoryFiles(tmp_path)).load()
    with pytest.raises(ConfigurationError, match="which of them is in force"):
        ServerSettings(database=tmp_path, tokens=tmp_path, policy=tmp_path, repository=tmp_path)
