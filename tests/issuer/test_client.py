"""From a backend to a checked receipt."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.settings import CloudSettings, Token
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.core.envelope import sign
from edgeagent.core.evidence import signed_receipt
from edgeagent.errors import SuspiciousError
from edgeagent.ids import device_id, hub_id
from edgeagent.issuer.client import (
    IssuerClient,
    NoReceiptError,
    RefusedByQueueError,
    StillOpenError,
    checked_receipts,
)
from edgeagent.issuer.commands import Intent, Issuer
from edgeagent.issuer.keys import PrivateKey, load_key, save_key
from edgeagent.issuer.policies import read_policy, sign_policy
from edgeagent.issuer.tokens import new_token
from edgeagent.issuer.wire import CommandState, CommandStatus
from edgeagent.ports.links import LinkError, Trouble
from tests.issuer.building import (
    NOON,
    TV,
    batch,
    hello,
    intent,
    order,
    real_clock,
    receipt,
    receipt_event,
    stored,
)
from tests.support.portals import Portal, hangs_up
from tests.support.queue_server import KnownHub, QueueServer

MINUTE = timedelta(minutes=1)


@pytest.mark.requirement("P1")
async def test_ten_lines_lead_from_a_backend_to_a_checked_receipt(
    server: QueueServer, hub: KnownHub, greeted: HttpsQueue, tmp_path: Path
) -> None:
    save_key(PrivateKey.new(), tmp_path / "desk.pem")
    clock, settings = real_clock(), server.settings(server.issuer_token)

    async def backend() -> Receipt:
        issuer = Issuer([load_key(tmp_path / "desk.pem")], clock)
        async with IssuerClient(settings, clock) as cloud:
            known = await cloud.hub(hub.id)
            assert known.epoch is not None
            meant = Intent(
                hub=hub.id, epoch=known.epoch, devices=[TV], action=ActionName.POWER, arguments={"on": True}
            )
            sent = issuer.sign(meant)
            await cloud.send(sent)
            told.set_result(sent)
            return await cloud.receipt(sent, within=MINUTE)

    told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(backend())
    [lent] = await greeted.lease(most=1, wait=MINUTE / 3, hold=MINUTE)
    await greeted.acknowledge([lent.handle])
    sent = await told
    await greeted.upload(batch(hub.id, [receipt_event(2, sent)]))  # type: ignore[arg-type]

    assert (await asyncio.wait_for(running, 60)).outcome is Outcome.SUCCEEDED


@pytest.mark.requirement("P1", "V7")
async def test_a_server_with_the_policy_refuses_what_the_hub_would_refuse(tmp_path: Path) -> None:
    desk = PrivateKey.new()
    text = f"""
        version = 1
        [keys]
        desk = "{desk.public.hex()}"
        [roles.operators]
        kind = "command"
        keys = ["desk"]
        actions = ["power"]
        devices = "*"
        [actions.power]
        tier = "low"
    """
    policy = read_policy(text.encode(), now=real_clock().wall().best, key_file=lambda _: b"")
    with QueueServer(tmp_path, policy=sign_policy(policy, [PrivateKey.new()])) as server:
        hub = server.new_hub()
        queue = HttpsQueue(server.settings(hub.token), hub.id, real_clock())
        await queue.upload(batch(hub.id, [hello()]))
        await queue.close()
        async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
            good = order(hub.id, key=desk)
            bad = Issuer([desk], real_clock()).sign(
                intent(hub.id, action=ActionName.VOLUME, arguments={"level": 3})
            )

            state = (await cloud.send(good)).state
            for command in (order(hub.id), bad):
                with pytest.raises(RefusedByQueueError):
                    await cloud.send(command)
            counts = {(row.origin, row.reason): row.count for row in await cloud.refusals()}

    assert state is CommandState.QUEUED
    assert counts == {("token:desk", "bad_signature"): 1, (desk.id, "not_allowed"): 1}


@pytest.mark.requirement("A4")
async def test_a_command_that_was_refused_has_no_receipt(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    data = {"command": sent.command.id, "payload_sha256": sent.sha256, "reason": "device_unknown"}
    await greeted.upload(batch(hub.id, [stored(2, EventType.REFUSED, data)]))

    with pytest.raises(NoReceiptError, match="device_unknown"):
        await cloud.receipt(sent, within=MINUTE)


async def test_a_command_that_is_still_open_is_told_as_such(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    sent = order(hub.id)
    await cloud.send(sent)
    await greeted.lease(most=1, wait=timedelta(0), hold=MINUTE)

    with pytest.raises(StillOpenError) as open_still:
        await cloud.receipt(sent, within=timedelta(seconds=0.2))

    assert open_still.value.state is CommandState.LEASED


@pytest.mark.requirement("A4", "P1")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"payload_sha256": "0" * 64}, id="another payload"),
        pytest.param({"command": "c-other"}, id="another command"),
        pytest.param({"device": "tv-2"}, id="another device"),
        pytest.param({"action": ActionName.REBOOT}, id="another action"),
        pytest.param({"issuer": "1" * 64}, id="another key"),
    ],
)
def test_a_receipt_about_something_else_is_suspicious(change: dict[str, object]) -> None:
    sent = order(hub_id("venue-7"))
    told = receipt(sent).model_copy(update=change)

    with pytest.raises(SuspiciousError):
        checked_receipts(sent, _final(told.model_dump(mode="json", exclude_none=True), "venue-7"))


@pytest.mark.requirement("A4")
def test_a_receipt_of_another_hub_or_of_no_shape_is_suspicious() -> None:
    sent = order(hub_id("venue-7"))
    whole = receipt(sent).model_dump(mode="json", exclude_none=True)

    assert checked_receipts(sent, _final(whole, "venue-7")) == {TV: receipt(sent)}
    with pytest.raises(SuspiciousError, match="another hub"):
        checked_receipts(sent, _final(whole, "venue-8"))
    with pytest.raises(SuspiciousError, match="none"):
        checked_receipts(sent, _final(whole | {"outcome": "fine"}, "venue-7"))


@pytest.mark.requirement("A4", "T3")
def test_receipts_that_are_not_one_for_each_device_are_suspicious() -> None:
    meant = replace(intent(hub_id("venue-7")), devices=[TV, device_id("tv-2")])
    sent = Issuer([PrivateKey.new()], real_clock()).sign(meant)
    [one, other] = [
        _final(receipt(sent, device=device).model_dump(mode="json", exclude_none=True), "venue-7")
        for device in sent.command.devices
    ]

    both = one.model_copy(update={"results": [*one.results, *other.results]})
    assert list(checked_receipts(sent, both)) == sent.command.devices
    for results in (one.results, one.results * 2, [*both.results, *one.results]):
        with pytest.raises(SuspiciousError, match="for each device"):
            checked_receipts(sent, one.model_copy(update={"results": results}))


@pytest.mark.requirement("A4", "P1")
def test_with_the_hubs_key_a_receipt_counts_only_if_that_hub_has_signed_it() -> None:
    sent, ours, anothers = order(hub_id("venue-7")), PrivateKey.new(), PrivateKey.new()
    told = signed_receipt(receipt(sent), ours)
    lie = told.model_copy(update={"outcome": Outcome.FAILED})

    assert checked_receipts(sent, _status(told), ours.public) == {receipt(sent).device: receipt(sent)}
    for wrong, key in ((told, anothers), (lie, ours), (receipt(sent), ours)):
        with pytest.raises(SuspiciousError, match="not signed"):
            checked_receipts(sent, _status(wrong), key.public)


def _status(told: Receipt) -> CommandStatus:
    return _final(told.model_dump(mode="json", exclude_none=True), "venue-7")


def _final(data: dict[str, object], hub: str) -> CommandStatus:
    event = {
        "specversion": "1.0",
        "id": f"{hub}/00000000000000000000/record/2",
        "source": f"urn:edgeagent:hub:{hub}",
        "type": "edgeagent.command.receipt",
        "time": "2026-12-01T12:00:00Z",
        "datacontenttype": "application/json",
        "timequality": "unknown",
        "boottime": 1,
        "incarnation": 1,
        "data": data,
    }
    fields = {
        "id": "c1",
        "payload_sha256": "0" * 64,
        "devices": [TV],
        "action": "power",
        "state": "final",
        "accepted_at": NOON.isoformat(),
        "lent": 1,
        "results": [event],
    }
    return CommandStatus.model_validate(fields, strict=False)


@pytest.mark.requirement("E4")
async def test_watching_goes_on_while_the_queue_is_away_and_ends_at_once_when_it_says_no(
    server: QueueServer,
) -> None:
    sent = order(hub_id("venue-7"))
    async with Portal(hangs_up()) as gone:
        settings = CloudSettings(url=gone.url, token=Token(new_token()))
        async with IssuerClient(settings, real_clock(), chance=lambda: 0.1) as cloud:
            with pytest.raises(StillOpenError) as away:
                await cloud.receipt(sent, within=timedelta(seconds=0.5))
    async with IssuerClient(server.settings(new_token()), real_clock()) as stranger:
        with pytest.raises(LinkError) as refused:
            await stranger.receipt(sent, within=MINUTE)

    assert away.value.state is None
    assert len(gone.asked) > 1
    assert refused.value.trouble is Trouble.LOGIN


async def test_another_signed_document_is_no_command(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    await greeted.upload(batch(hub.id, [hello(2)]))

    with pytest.raises(RefusedByQueueError) as refused:
        await cloud.send_envelope(hub.id, sign(b"{}", "application/other", [PrivateKey.new()]))

    assert refused.value.reason == "wrong_payload_type"
