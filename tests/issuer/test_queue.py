"""Commands down: lent, never given away; and how they ended."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.contracts.command import COMMAND_TYPE
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import EventType
from edgeagent.core.envelope import sign
from edgeagent.ids import device_id, new_epoch
from edgeagent.issuer.client import IssuerClient, NoReceiptError, RefusedByQueueError
from edgeagent.issuer.commands import Issuer
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.wire import CommandState
from edgeagent.ports.cloud import Delivery
from edgeagent.ports.links import LinkError, Trouble
from tests.issuer.building import TV, batch, hello, intent, order, real_clock, receipt_event, stored
from tests.support.queue_server import KnownHub, QueueServer

SECOND = timedelta(seconds=1)
LONG = timedelta(minutes=10)
SHORT = timedelta(milliseconds=100)


async def lease(
    queue: HttpsQueue, *, most: int = 10, wait: timedelta = timedelta(0), hold: timedelta = LONG
) -> list[Delivery]:
    return await queue.lease(most=most, wait=wait, hold=hold)


@pytest.mark.requirement("Q3", "P1")
async def test_a_command_goes_down_byte_for_byte_and_is_forgotten_when_it_is_acknowledged(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)

    states = [(await cloud.send(sent)).state]
    [lent] = await lease(greeted)
    states.append((await cloud.status(hub.id, sent.command.id)).state)
    await greeted.acknowledge([lent.handle])
    states.append((await cloud.status(hub.id, sent.command.id)).state)

    assert lent.envelope == sent.envelope
    assert states == [CommandState.QUEUED, CommandState.LEASED, CommandState.TAKEN]
    assert await lease(greeted) == []


@pytest.mark.requirement("O2")
async def test_the_place_in_a_trace_goes_down_beside_the_command_if_it_is_one(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    told = [good, None, "00-nonsense", good.replace("00-", "cc-", 1) + "-more", "x" * 4000]

    for traceparent in told:
        await cloud.send(order(hub.id), traceparent=traceparent)
    lent = await lease(greeted)

    assert [each.traceparent for each in lent] == [good, None, None, good, None]


@pytest.mark.requirement("Q3")
async def test_a_lent_command_is_lent_to_nobody_else_until_its_loan_ends(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    await cloud.send(order(hub.id))
    [first] = await lease(greeted, hold=SHORT)

    [second] = await lease(greeted, wait=20 * SECOND)

    assert second.envelope == first.envelope
    assert second.handle != first.handle
    assert await lease(greeted) == []


@pytest.mark.requirement("Q3")
async def test_whoever_holds_an_earlier_loan_can_neither_acknowledge_nor_extend_nor_return_the_next(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    [earlier] = await lease(greeted, hold=SHORT)
    [later] = await lease(greeted, wait=20 * SECOND, hold=LONG)

    await greeted.acknowledge([earlier.handle])
    await greeted.extend([earlier.handle], hold=SHORT)
    await greeted.hand_back([earlier.handle])

    assert (await cloud.status(hub.id, sent.command.id)).state is CommandState.LEASED
    await greeted.acknowledge([later.handle])
    assert (await cloud.status(hub.id, sent.command.id)).state is CommandState.TAKEN


@pytest.mark.requirement("Q3", "W2")
async def test_another_hub_can_do_nothing_with_a_handle(
    server: QueueServer, greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    [lent] = await lease(greeted)
    stranger = server.new_hub()
    other = HttpsQueue(server.settings(stranger.token), stranger.id, real_clock())

    await other.acknowledge([lent.handle])
    await other.hand_back([lent.handle])
    nothing = await lease(other)
    await other.close()

    assert nothing == []
    assert (await cloud.status(hub.id, sent.command.id)).state is CommandState.LEASED


@pytest.mark.requirement("Q3")
async def test_a_loan_that_is_extended_outlives_its_first_end(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    await cloud.send(order(hub.id))
    await cloud.send(order(hub.id))
    [kept, lapsing] = await lease(greeted, hold=SHORT)
    await greeted.extend([kept.handle], hold=LONG)

    [again] = await lease(greeted, wait=30 * SECOND)

    assert again.envelope == lapsing.envelope


@pytest.mark.requirement("Q3")
async def test_a_command_that_is_handed_back_comes_at_once_and_in_its_old_place(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    first, second = order(hub.id), order(hub.id)
    await cloud.send(first)
    await cloud.send(second)
    [lent] = await lease(greeted, most=1)

    await greeted.hand_back([lent.handle])

    assert [one.envelope for one in await lease(greeted)] == [first.envelope, second.envelope]


@pytest.mark.requirement("Q3")
async def test_acknowledging_twice_is_no_harm(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    [lent] = await lease(greeted)

    await greeted.acknowledge([lent.handle])
    await greeted.acknowledge([lent.handle])

    assert (await cloud.status(hub.id, sent.command.id)).state is CommandState.TAKEN


@pytest.mark.requirement("H9", "R8", "Q9")
async def test_of_two_that_wait_the_newer_is_given_the_next_command_at_once(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    """The older one's connection may be dead: what it were lent would be lost for a while."""
    both = [asyncio.create_task(lease(greeted, wait=60 * SECOND)) for _ in range(2)]
    pushed_out, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

    sent = order(hub.id)
    await cloud.send(sent)

    why = pushed_out.pop().exception()
    assert isinstance(why, LinkError)
    assert (why.trouble, bool(why.retry_after)) == (Trouble.BUSY, True)
    [lent] = await asyncio.wait_for(waiting.pop(), 60)
    assert lent.envelope == sent.envelope


@pytest.mark.requirement("T4", "I1")
async def test_the_same_command_again_is_the_same_command(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    [lent] = await lease(greeted)
    await greeted.acknowledge([lent.handle])

    again = await cloud.send(sent)

    assert again.state is CommandState.TAKEN
    assert await lease(greeted) == []


@pytest.mark.requirement("T4")
async def test_another_payload_under_a_known_id_is_a_conflict_and_changes_nothing(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    key = PrivateKey.new()
    sent = order(hub.id, key=key)
    await cloud.send(sent)
    other = sent.command.model_copy(update={"arguments": {"on": False}})

    with pytest.raises(RefusedByQueueError) as refused:
        await cloud.send_envelope(hub.id, sign(encode(other), COMMAND_TYPE, [key]))

    assert refused.value.reason == "id_conflict"
    assert [one.envelope for one in await lease(greeted)] == [sent.envelope]


@pytest.mark.requirement("T4", "T7")
async def test_the_same_payload_with_more_signatures_is_delivered_too(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    keys = [PrivateKey.new(), PrivateKey.new()]
    sent = Issuer(keys[:1], real_clock()).sign(intent(hub.id))
    approved = sign(encode(sent.command), COMMAND_TYPE, keys)
    await cloud.send(sent)
    [first] = await lease(greeted)
    await greeted.acknowledge([first.handle])

    await cloud.send_envelope(hub.id, approved)

    [second] = await lease(greeted)
    assert second.envelope == approved
    assert (await cloud.status(hub.id, sent.command.id)).lent == 2


@pytest.mark.requirement("R7")
async def test_not_more_envelopes_are_kept_than_a_command_may_have_signatures(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    payload = encode(order(hub.id).command)

    for _ in range(10):
        await cloud.send_envelope(hub.id, sign(payload, COMMAND_TYPE, [PrivateKey.new()]))

    assert len(await lease(greeted, most=64)) == 8


@pytest.mark.requirement("A4", "P1")
async def test_a_receipt_ends_a_command_from_any_state(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    """The acknowledgement may be lost and the receipt not: then the hub has it all the same."""
    sent = order(hub.id)
    await cloud.send(sent)
    await lease(greeted)

    await greeted.upload(batch(hub.id, [receipt_event(2, sent)]))

    status = await cloud.status(hub.id, sent.command.id)
    assert status.state is CommandState.FINAL
    [result] = status.results
    assert result.data["outcome"] == "succeeded"
    assert await lease(greeted) == []
    assert (await cloud.send(sent)).state is CommandState.FINAL


@pytest.mark.requirement("T3")
async def test_a_command_for_several_devices_is_over_when_it_has_ended_on_each(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    devices = [device_id("tv-2"), TV, device_id("tv-3")]
    sent = Issuer([PrivateKey.new()], real_clock()).sign(replace(intent(hub.id), devices=devices))
    taken = await cloud.send(sent)
    [lent] = await lease(greeted)
    await greeted.acknowledge([lent.handle])

    await greeted.upload(batch(hub.id, [receipt_event(2, sent, device=devices[2])]))
    await greeted.upload(batch(hub.id, [receipt_event(3, sent, device=device_id("tv-9"))]))
    await greeted.upload(batch(hub.id, [receipt_event(4, sent, device=devices[0])]))
    part = await cloud.status(hub.id, sent.command.id)
    await greeted.upload(batch(hub.id, [receipt_event(5, sent, device=TV)]))

    whole = await cloud.status(hub.id, sent.command.id)
    assert (taken.devices, taken.results) == (devices, [])
    assert part.state is CommandState.TAKEN
    assert [result.subject for result in part.results] == [devices[0], devices[2]]
    assert whole.state is CommandState.FINAL
    assert [result.subject for result in whole.results] == devices
    receipts = await cloud.receipts(sent, within=LONG)
    assert {device: each.device for device, each in receipts.items()} == {each: each for each in devices}


@pytest.mark.requirement("T3", "Q3")
async def test_more_signatures_are_delivered_while_a_command_is_open_on_one_of_its_devices(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    meant = replace(intent(hub.id), devices=[TV, device_id("tv-2")])
    sent = Issuer([PrivateKey.new()], real_clock()).sign(meant)
    await cloud.send(sent)
    [lent] = await lease(greeted)
    await greeted.acknowledge([lent.handle])
    await greeted.upload(batch(hub.id, [receipt_event(2, sent)]))

    more = sign(encode(sent.command), COMMAND_TYPE, [PrivateKey.new()])
    await cloud.send_envelope(hub.id, more)

    assert [each.envelope for each in await lease(greeted)] == [more]


@pytest.mark.requirement("D2")
async def test_a_later_runs_receipt_takes_the_place_of_an_earlier_one(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)

    await greeted.upload(batch(hub.id, [receipt_event(3, sent, run=2)]))
    await greeted.upload(batch(hub.id, [receipt_event(2, sent, run=1)]))

    status = await cloud.status(hub.id, sent.command.id)
    [result] = status.results
    assert result.data["run"] == 2


@pytest.mark.requirement("T9")
async def test_a_refusal_at_admission_ends_a_command_and_one_of_a_replay_or_forgery_does_not(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    about = {"command": sent.command.id, "payload_sha256": sent.sha256}
    replayed = stored(2, EventType.REFUSED, {**about, "reason": "replayed"})
    forged = stored(3, EventType.REFUSED, {**about, "payload_sha256": "0" * 64, "reason": "id_conflict"})
    unreadable = stored(4, EventType.REFUSED, {"reason": "malformed"})
    refused = stored(5, EventType.REFUSED, {**about, "reason": "device_unknown"})

    await greeted.upload(batch(hub.id, [replayed, forged, unreadable]))
    before = await cloud.status(hub.id, sent.command.id)
    await greeted.upload(batch(hub.id, [refused]))

    after = await cloud.status(hub.id, sent.command.id)
    assert before.state is CommandState.QUEUED
    assert after.state is CommandState.FINAL
    [result] = after.results
    assert result.data["reason"] == "device_unknown"


@pytest.mark.requirement("T5")
async def test_a_command_whose_time_is_over_before_its_hub_came_is_never_delivered(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = Issuer([PrivateKey.new()], real_clock()).sign(intent(hub.id, valid_for=SHORT))
    await cloud.send(sent)

    async with asyncio.timeout(60):
        while (await cloud.status(hub.id, sent.command.id, wait=SHORT)).state is not CommandState.EXPIRED:
            pass

    assert await lease(greeted) == []
    assert (await cloud.hub(hub.id)).waiting == 0


@pytest.mark.requirement("P1")
async def test_whoever_watches_is_told_when_a_command_moves_on(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    moving = asyncio.create_task(
        cloud.status(hub.id, sent.command.id, wait=60 * SECOND, known=CommandState.QUEUED)
    )
    ending = asyncio.create_task(cloud.status(hub.id, sent.command.id, wait=60 * SECOND))

    await lease(greeted)
    moved = await asyncio.wait_for(moving, 60)
    await greeted.upload(batch(hub.id, [receipt_event(2, sent)]))
    ended = await asyncio.wait_for(ending, 60)

    assert (moved.state, ended.state) == (CommandState.LEASED, CommandState.FINAL)


@pytest.mark.requirement("V7", "T8")
async def test_the_gate_refuses_before_anything_is_queued_and_counts_by_origin(
    queue: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)

    for _ in range(3):
        with pytest.raises(RefusedByQueueError, match="wrong_epoch"):
            await cloud.send(sent)

    assert await lease(queue) == []
    with pytest.raises(RefusedByQueueError, match="no such command"):
        await cloud.status(hub.id, sent.command.id)
    counts = [row for row in await cloud.refusals() if row.sample == sent.command.id]
    assert sum(row.count for row in counts) == 3
    assert {(row.origin, row.reason) for row in counts} == {("token:desk", "wrong_epoch")}


LATER_EPOCH = new_epoch(1_800_000_000_001, 8)


@pytest.mark.requirement("T8")
async def test_what_waits_for_an_epoch_that_is_over_ends_refused_and_whoever_waits_is_told(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    """It would be refused by the hub anyway; its issuer can sign it anew at once."""
    sent = order(hub.id)
    await cloud.send(sent)
    waiting = asyncio.create_task(cloud.receipt(sent, within=LONG))

    await greeted.upload(batch(hub.id, [hello()], epoch=LATER_EPOCH))

    with pytest.raises(NoReceiptError, match="refused wrong_epoch") as ended:
        await waiting
    assert (ended.value.status.state, ended.value.status.lent) == (CommandState.REFUSED, 0)
    assert await lease(greeted) == []
    assert (await cloud.hub(hub.id)).waiting == 0


@pytest.mark.requirement("T8")
async def test_a_new_hello_of_the_same_epoch_and_a_late_one_of_an_earlier_end_nothing(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    await greeted.upload(batch(hub.id, [hello()], epoch=LATER_EPOCH))
    sent = order(hub.id, epoch=LATER_EPOCH)
    await cloud.send(sent)

    await greeted.upload(batch(hub.id, [hello(2)], epoch=LATER_EPOCH))
    await greeted.upload(batch(hub.id, [hello(9)]))

    [lent] = await lease(greeted)
    assert lent.envelope == sent.envelope


@pytest.mark.requirement("T8")
async def test_what_was_lent_once_is_left_to_the_hub_in_its_new_epoch(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    """It may have been done before the old database was lost: the queue cannot say that it was not."""
    sent = order(hub.id)
    await cloud.send(sent)
    [lent] = await lease(greeted)
    await greeted.hand_back([lent.handle])

    await greeted.upload(batch(hub.id, [hello()], epoch=LATER_EPOCH))

    assert (await cloud.status(hub.id, sent.command.id)).state is CommandState.QUEUED
    [again] = await lease(greeted)
    assert again.envelope == sent.envelope
