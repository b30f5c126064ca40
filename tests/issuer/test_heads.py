"""The head of a hub's audit trail rides in its uploads; what does not fit what was told before is a fork."""

import json

import pytest
from pydantic import ValidationError

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.wire import UploadQuery, head_of, head_text
from edgeagent.contracts.receipt import AuditMark
from edgeagent.ids import digest, new_epoch
from edgeagent.issuer.client import IssuerClient
from edgeagent.ports.cloud import Batch
from tests.issuer.building import EPOCH, batch, hello, records
from tests.support.queue_server import KnownHub, QueueServer

pytestmark = pytest.mark.requirement("A3")


def head(number: int, sign: str = "a") -> AuditMark:
    return AuditMark(number=number, hash=digest(sign * 64))


def with_head(hub: KnownHub, number: int, mark: AuditMark) -> Batch:
    """An upload of one record, under the trail's head of then."""
    one = records(hub.id, number)
    return Batch(one.epoch, one.stream, one.events, mark)


async def standing(cloud: IssuerClient, hub: KnownHub) -> tuple[int, str, int] | None:
    """Number, first letter of the hash, and forks, as the queue knows them."""
    audit = (await cloud.hub(hub.id, epoch=EPOCH)).audit
    return None if audit is None else (audit.number, audit.hash[0], audit.forks)


async def test_the_furthest_head_is_remembered(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    assert await standing(cloud, hub) is None

    for number, mark in ((2, head(7)), (3, head(7)), (4, head(9, "b"))):
        await greeted.upload(with_head(hub, number, mark))

    assert await standing(cloud, hub) == (9, "b", 0)


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(head(9, "c"), id="the last row is another"),
        pytest.param(head(7, "c"), id="an earlier row is another"),
        pytest.param(head(7), id="set back to what it was"),
        pytest.param(head(8, "c"), id="set back to what it never was"),
    ],
)
async def test_a_head_that_does_not_fit_is_a_fork_told_once_and_nothing_else_changes(
    server: QueueServer, greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub, lie: AuditMark
) -> None:
    await greeted.upload(with_head(hub, 2, head(7)))
    await greeted.upload(with_head(hub, 3, head(9, "b")))
    before = server.log.count("audit trail forked")

    for number in (4, 5):
        answer = await greeted.upload(with_head(hub, number, lie))
        assert answer.taken == {number}, "the events are evidence too"

    assert await standing(cloud, hub) == (9, "b", 1)
    assert server.log.count("audit trail forked") == before + 1


async def test_another_life_of_the_database_has_a_trail_of_its_own(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    other = new_epoch(1_900_000_000_000, 1)
    await greeted.upload(with_head(hub, 2, head(9)))
    first = batch(hub.id, [hello(1)], epoch=other)
    await greeted.upload(Batch(other, first.stream, first.events, head(1, "d")))

    assert await standing(cloud, hub) == (9, "a", 0)
    told = (await cloud.hub(hub.id)).audit
    assert told is not None
    assert (told.number, told.forks) == (1, 0)


async def test_a_queue_shows_the_key_that_the_hub_has_said_hello_with(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    assert greeted is not None
    status = await cloud.hub(hub.id)
    assert status.hello is not None
    assert status.hello.data["key"] == "7a" * 32


@pytest.mark.parametrize(
    "text", ["7", "7-", "-" + "a" * 64, "07-" + "a" * 64, "7-" + "A" * 64, "9" * 16 + "-" + "a" * 64]
)
def test_what_is_no_head_is_refused_at_the_door(text: str) -> None:
    query = {"batch": "0" * 32, "epoch": "0" * 20, "stream": "record"}

    with pytest.raises(ValidationError, match="head"):
        UploadQuery.model_validate_json(json.dumps(query | {"head": text}))

    read = UploadQuery.model_validate_json(json.dumps(query | {"head": head_text(head(7))}))
    assert read.head is not None
    assert head_of(read.head) == head(7)
