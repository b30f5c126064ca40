"""Events up: stored before they are acknowledged, once, and nothing of what is no event."""

import gzip
import json
from pathlib import Path
from random import Random

import pytest
from pydantic import JsonValue

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.contracts.event import EventType, Stream
from edgeagent.errors import RejectedError
from edgeagent.ids import new_epoch, reading_name
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.settings import Limits
from tests.issuer.building import (
    EPOCH,
    TV,
    batch,
    hello,
    order,
    real_clock,
    receipt_event,
    records,
    state,
    stored,
)
from tests.issuer.raw import NONCE, upload
from tests.support.queue_server import KnownHub, QueueServer


def events(hub: KnownHub, *numbers: int) -> list[dict[str, JsonValue]]:
    """Records as JSON values, to be spoilt."""
    return [json.loads(text) for _, text in records(hub.id, *numbers).events]


def body(values: object) -> bytes:
    return json.dumps(values).encode()


async def numbers(cloud: IssuerClient, hub: KnownHub, stream: Stream = Stream.RECORD) -> list[int]:
    """The numbers of the events that the queue gives out."""
    page = await cloud.events(hub.id, stream, epoch=EPOCH, most=2000)
    return [int(event.id.rpartition("/")[2]) for event in page.events]


@pytest.mark.requirement("U1", "U8")
async def test_what_was_acknowledged_is_there_as_the_hub_sent_it(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = batch(hub.id, [hello(), stored(2, EventType.ALERT, {"reason": "flapping", "topic": "ünïcode"})])

    answer = await queue.upload(sent)

    assert answer.taken == {1, 2}
    page = await cloud.events(hub.id, Stream.RECORD)
    assert [json.loads(text) for _, text in sent.events] == [
        json.loads(event.model_dump_json(exclude_none=True)) for event in page.events
    ]


async def test_the_deepest_event_that_is_taken_can_be_read(
    server: QueueServer, cloud: IssuerClient, hub: KnownHub
) -> None:
    [deep] = events(hub, 1)
    deep["data"] = {"deep": json.loads("[" * 12 + "]" * 12)}

    reply = await upload(server.url, hub, body([deep]))

    assert reply.json["taken"] == [[1, 1]]
    [event] = (await cloud.events(hub.id, Stream.RECORD, epoch=EPOCH)).events
    assert event.data == deep["data"]


@pytest.mark.requirement("U1")
async def test_a_repeat_is_taken_and_stored_once(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    await queue.upload(records(hub.id, 1, 2, 3))

    answer = await queue.upload(records(hub.id, 2, 3, 4))

    assert answer.taken == {2, 3, 4}
    assert await numbers(cloud, hub) == [1, 2, 3, 4]


@pytest.mark.requirement("U1", "H9")
async def test_another_event_under_a_known_number_is_refused_and_the_first_kept(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    """Two machines with one identity, or a copy of a database, must not silently swallow each other."""
    await queue.upload(records(hub.id, 1))

    answer = await queue.upload(batch(hub.id, [stored(1, EventType.ALERT, {"reason": True}), stored(2)]))

    assert answer.taken == {2}
    assert answer.refused.keys() == {1}
    assert answer.refused[1].startswith("id_conflict")
    first, _ = (await cloud.events(hub.id, Stream.RECORD, epoch=EPOCH)).events
    assert first.data == {"reason": "flapping"}


@pytest.mark.requirement("U1")
async def test_the_far_side_proves_that_the_records_have_no_hole(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    await queue.upload(batch(hub.id, [hello(), stored(2), stored(5)]))
    [broken] = [one for one in (await cloud.hub(hub.id)).streams if one.stream is Stream.RECORD]

    await queue.upload(records(hub.id, 3, 4))

    [whole] = [one for one in (await cloud.hub(hub.id)).streams if one.stream is Stream.RECORD]
    assert (broken.ranges, broken.contiguous, broken.last) == ([[1, 2], [5, 5]], False, 5)
    assert (whole.ranges, whole.contiguous, whole.stored) == ([[1, 5]], True, 5)


@pytest.mark.requirement("U5")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param({"type": "edgeagent.unheard.of"}, id="unknown type"),
        pytest.param({"time": "yesterday"}, id="no time"),
        pytest.param({"boottime": -1}, id="negative"),
        pytest.param({"boottime": "60000"}, id="text for a number"),
        pytest.param({"source": "urn:edgeagent:hub:other"}, id="another source"),
        pytest.param({"subject": "a/b"}, id="no device id"),
        pytest.param({"data": []}, id="no object"),
        pytest.param({"surprise": 1}, id="unknown attribute"),
        pytest.param({"\u001b[2J": 1}, id="a name that a terminal acts on"),
        pytest.param({"type": "edgeagent.reading.state", "data": {"version": 1}}, id="half a state"),
        pytest.param({"type": "edgeagent.reading.telemetry", "subject": None}, id="of no device"),
        pytest.param({"data": {"long": "x" * 70_000}}, id="too large"),
        pytest.param({"data": {"deep": json.loads("[" * 13 + "]" * 13)}}, id="too deep to be given out"),
    ],
)
async def test_a_poison_event_is_refused_alone_and_is_a_known_hole(
    server: QueueServer, cloud: IssuerClient, hub: KnownHub, spoil: dict[str, JsonValue]
) -> None:
    good, poison, last = events(hub, 1, 2, 3)

    reply = await upload(server.url, hub, body([good, poison | spoil, last]))

    assert reply.status == 200
    assert reply.json["taken"] == [[1, 1], [3, 3]]
    assert reply.refused.keys() == {2}
    assert reply.refused[2].isprintable()
    assert await numbers(cloud, hub) == [1, 3]
    [record, *_] = (await cloud.hub(hub.id, epoch=EPOCH)).streams
    assert (record.refused, record.contiguous) == (1, True)


@pytest.mark.requirement("U5")
async def test_an_event_that_was_refused_is_taken_when_it_comes_in_order(
    server: QueueServer, cloud: IssuerClient, hub: KnownHub
) -> None:
    [poison] = events(hub, 1)
    await upload(server.url, hub, body([poison | {"boottime": -1}]))

    reply = await upload(server.url, hub, body([poison]))

    assert reply.json["taken"] == [[1, 1]]
    [record, *_] = (await cloud.hub(hub.id, epoch=EPOCH)).streams
    assert (record.stored, record.refused) == (1, 0)


@pytest.mark.requirement("U4")
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="none of it"),
        pytest.param(b"[]", id="no event"),
        pytest.param(b"{}", id="no array"),
        pytest.param(b"[1]", id="no object"),
        pytest.param(b'[{"id":"x"}]', id="no id"),
        pytest.param(b'[{"id":17}]', id="a number for an id"),
        pytest.param(b"[" * 100_000, id="too deep"),
        pytest.param(b'[{"id":NaN}]', id="not a number"),
        pytest.param(b'[{"a":1,"a":2}]', id="a key twice"),
        pytest.param(b"\xff\xfe[]", id="not UTF-8"),
    ],
)
async def test_a_body_that_is_no_batch_is_refused_whole_and_proves_by_whom(
    server: QueueServer, cloud: IssuerClient, hub: KnownHub, raw: bytes
) -> None:
    reply = await upload(server.url, hub, raw)

    assert (reply.status, reply.reason) == (400, "malformed")
    assert reply.json["batch"] == NONCE
    assert await numbers(cloud, hub) == []


@pytest.mark.requirement("U1")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param("other/{epoch}/record/2", id="another hub"),
        pytest.param("{hub}/00000000000000000000/record/2", id="another epoch"),
        pytest.param("{hub}/{epoch}/state/2", id="another stream"),
        pytest.param("{hub}/{epoch}/record/1", id="a number twice"),
        pytest.param("{hub}/{epoch}/record/0", id="number nought"),
        pytest.param("{hub}/{epoch}/record/9223372036854775807", id="beyond 64 bits"),
    ],
)
async def test_an_event_that_is_of_elsewhere_spoils_its_batch(
    server: QueueServer, cloud: IssuerClient, hub: KnownHub, spoil: str
) -> None:
    good, foreign = events(hub, 1, 2)
    foreign["id"] = spoil.format(hub=hub.id, epoch=EPOCH)

    reply = await upload(server.url, hub, body([good, foreign]))

    assert (reply.status, reply.reason) == (400, "malformed")
    assert await numbers(cloud, hub) == []


@pytest.mark.requirement("U4", "R7")
async def test_gzip_is_unpacked_and_a_bomb_is_not(
    server: QueueServer, cloud: IssuerClient, hub: KnownHub
) -> None:
    packed = {"Content-Encoding": "gzip"}
    good = gzip.compress(body(events(hub, 1)))
    bomb = gzip.compress(b" " * 200_000_000, 9)
    assert len(bomb) < 1024 * 1024

    fine = await upload(server.url, hub, good, headers=packed)
    exploded = await upload(server.url, hub, bomb, headers=packed)
    cut = await upload(server.url, hub, good[:-8], headers=packed)
    longer = await upload(server.url, hub, good + good, headers=packed)
    plain = await upload(server.url, hub, body(events(hub, 2)), headers=packed)
    other = await upload(server.url, hub, good, headers={"Content-Encoding": "br"})

    assert fine.status == 200
    assert (exploded.status, exploded.reason) == (413, "too_large")
    assert (cut.status, longer.status, plain.status, other.status) == (400, 400, 400, 415)
    assert {reply.json["batch"] for reply in (exploded, cut, longer, plain, other)} == {NONCE}
    assert await numbers(cloud, hub) == [1]


@pytest.mark.requirement("U5", "R7")
async def test_a_body_that_is_too_large_is_refused_announced_or_not(
    server: QueueServer, hub: KnownHub
) -> None:
    limit = Limits().upload_bytes

    announced = await upload(server.url, hub, b" " * (limit + 1))
    fits = await upload(server.url, hub, b" " * limit)  # read to its end

    assert (announced.status, announced.reason, announced.json["batch"]) == (413, "too_large", NONCE)
    assert fits.status == 400


@pytest.mark.slow
@pytest.mark.requirement("U5")
async def test_a_batch_that_is_too_large_passes_in_pieces(tmp_path: Path) -> None:
    """The whole is refused by the queue itself, while the hub is still sending; halves of it fit."""
    noise = Random(7)  # noqa: S311 - what gzip cannot make small
    texts = ["".join(noise.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=50_000)) for _ in range(60)]
    many = [stored(number, data={"text": text}) for number, text in enumerate(texts, start=1)]
    with QueueServer(tmp_path) as server:
        hub = server.new_hub()
        queue = HttpsQueue(server.settings(hub.token), hub.id, real_clock())

        with pytest.raises(RejectedError, match="too_large"):
            await queue.upload(batch(hub.id, many))

        answers = [await queue.upload(batch(hub.id, many[at : at + 15])) for at in range(0, 60, 15)]
        await queue.close()
        async with IssuerClient(server.settings(server.audit_token), real_clock()) as cloud:
            first = await cloud.events(hub.id, Stream.RECORD, epoch=EPOCH)
            second = await cloud.events(hub.id, Stream.RECORD, epoch=EPOCH, after=first.last)

    assert frozenset().union(*(answer.taken for answer in answers)) == set(range(1, 61))
    assert 0 < len(first.events) < 60, "a page is bounded in bytes too"
    assert second.events[0].id.endswith(f"/{first.last + 1}")


async def test_another_media_type_is_not_taken_for_a_batch(server: QueueServer, hub: KnownHub) -> None:
    reply = await upload(server.url, hub, b"[]", headers={"Content-Type": "application/json"})

    assert (reply.status, reply.reason) == (415, "unsupported_type")


@pytest.mark.requirement("C1", "P1")
async def test_states_are_known_with_their_versions_and_in_their_order(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    admitted: dict[str, JsonValue] = {
        "label": "TV in the bar",
        "profile": "tasmota",
        "actions": ["power", "volume"],
    }
    await queue.upload(batch(hub.id, [hello(), stored(2, EventType.DEVICE_ADMITTED, admitted)]))
    await queue.upload(batch(hub.id, [state(2, 8, power=True)], stream=Stream.STATE))
    await queue.upload(batch(hub.id, [state(1, 7, power=False, volume=11)], stream=Stream.STATE))
    warm = stored(1, EventType.TELEMETRY, {"readings": {"temperature": 21.5}})
    await queue.upload(batch(hub.id, [warm], stream=Stream.TELEMETRY))

    [device] = await cloud.devices(hub.id)

    assert (device.device, device.label, device.actions) == (TV, "TV in the bar", ["power", "volume"])
    assert (device.version, device.etag) == (8, f"{8:016x}")
    shown = {name: (reading.value, reading.version) for name, reading in device.readings.items()}
    assert shown == {"power": (True, 8), "volume": (11, 7), "temperature": (21.5, None)}


async def test_a_forgotten_device_is_gone(queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub) -> None:
    await queue.upload(batch(hub.id, [state(1, 7, power=False)], stream=Stream.STATE))
    assert len(await cloud.devices(hub.id)) == 1

    await queue.upload(batch(hub.id, [hello(), stored(2, EventType.DEVICE_FORGOTTEN, {})]))

    assert await cloud.devices(hub.id) == []


@pytest.mark.requirement("T8")
async def test_a_new_epoch_takes_over_and_the_old_one_changes_nothing_any_more(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    newer = new_epoch(1_800_000_001_000, 8)
    await queue.upload(batch(hub.id, [hello()]))
    await queue.upload(batch(hub.id, [state(50, 50, power=True)], stream=Stream.STATE))

    await queue.upload(batch(hub.id, [hello()], epoch=newer))
    await queue.upload(batch(hub.id, [state(1, 1, power=False)], stream=Stream.STATE, epoch=newer))
    late = await queue.upload(batch(hub.id, [state(51, 51, power=True)], stream=Stream.STATE))
    await queue.upload(batch(hub.id, [hello(9)]))

    assert late.taken == {51}, "its readings are kept"
    assert (await cloud.hub(hub.id)).epoch == newer
    [device] = await cloud.devices(hub.id)
    assert (device.version, device.readings[reading_name("power")].value) == (1, False)


@pytest.mark.requirement("P1")
async def test_a_stream_is_read_page_by_page(queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub) -> None:
    await queue.upload(batch(hub.id, [hello(), *(stored(number) for number in range(2, 8))]))

    pages, after = [], 0
    while (page := await cloud.events(hub.id, Stream.RECORD, after=after, most=3)).events:
        pages.append(len(page.events))
        after = page.last

    assert (pages, after) == ([3, 3, 1], 7)


@pytest.mark.requirement("T4")
async def test_a_receipt_that_is_told_again_is_a_repeat(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    """The hub answers a repeated command with the same event under the same number."""
    sent = order(hub.id)
    await cloud.send(sent)
    told = batch(hub.id, [receipt_event(2, sent)])
    await greeted.upload(told)

    answer = await greeted.upload(told)

    assert answer.taken == {2}
    assert await numbers(cloud, hub) == [1, 2]
