"""Orders to a hub, on the issuer's side: signed, judged before they are queued, watched to their end."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import JsonValue

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.clock import ProvenClock
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.event import EventType
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order, Verb
from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import sign, unproven_payload
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import hub_id, new_epoch
from edgeagent.issuer.client import IssuerClient, RefusedByQueueError
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.order_gate import judge_raw_order
from edgeagent.issuer.orders import SignedOrder, Wish, sign_order
from edgeagent.issuer.policies import read_policy
from edgeagent.issuer.producer_gate import GateRefusedError, GateWorld
from edgeagent.issuer.wire import CommandState
from tests.issuer.building import EPOCH, NOON, ManualClock, batch, real_clock, stored
from tests.support.queue_server import KnownHub

pytestmark = pytest.mark.requirement("B3", "V7")

HUB = hub_id("venue-7")
GUARD, DESK = PrivateKey.new(), PrivateKey.new()


def policy(hubs: str = '["venue-7"]') -> Policy:
    """A guard may stop, a desk may command."""
    text = f"""
        version = 3
        hubs = {hubs}
        [keys]
        guard = "{GUARD.public.hex()}"
        desk = "{DESK.public.hex()}"
        [roles.guards]
        kind = "stop"
        keys = ["guard"]
        [roles.operators]
        kind = "command"
        keys = ["desk"]
        actions = "*"
        devices = "*"
        [actions.power]
        tier = "low"
    """
    return read_policy(text.encode(), now=NOON - timedelta(days=30), key_file=lambda _: b"")


def world(**changes: object) -> GateWorld:
    """The queue, as it judges at noon."""
    return replace(GateWorld(hub=HUB, epoch=EPOCH, now=NOON, policy=policy()), **changes)  # type: ignore[arg-type]  # checked by the tests


def signed(
    *, key: PrivateKey = GUARD, clock: ManualClock | ProvenClock | None = None, **changes: object
) -> SignedOrder:
    """An order to stop everything."""
    fields: dict[str, object] = {"hub": HUB, "epoch": EPOCH, "verb": Verb.STOP, "kind": "all"}
    wish = Wish(**(fields | changes))  # type: ignore[arg-type]  # checked by the tests
    return sign_order(wish, [key], clock or ManualClock())


def test_an_order_is_bound_to_hub_epoch_and_time() -> None:
    made = signed(why="smoke", verb=Verb.RESUME, kind="tier:high", valid_for=timedelta(minutes=3))

    read = decode(Order, unproven_payload(made.envelope), limit=ORDER_BYTES)
    assert read == made.order
    assert (read.hub, read.epoch) == (HUB, EPOCH)
    assert (read.verb, read.kind, read.why) == ("resume", "tier:high", "smoke")
    assert read.expires_at - read.issued_at == timedelta(minutes=3)


@pytest.mark.parametrize(
    "changes", [{"kind": "everything"}, {"kind": "tier:none"}, {"why": "x" * 201}], ids=str
)
def test_an_order_that_is_none_is_not_signed(changes: dict[str, object]) -> None:
    with pytest.raises(MalformedError):
        signed(**changes)  # type: ignore[arg-type]  # checked by the model


def test_nobody_signs_no_order() -> None:
    with pytest.raises(RejectedError, match="signatures"):
        sign_order(Wish(hub=HUB, epoch=EPOCH, verb=Verb.STOP, kind="all"), [], ManualClock())


def test_a_stop_passes_when_the_policy_is_over() -> None:
    made = signed(verb=Verb.STOP)

    assert judge_raw_order(made.envelope, world(policy_until=NOON)).order == made.order


@pytest.mark.parametrize("verb", Verb)
def test_a_good_order_passes_with_its_signer_known(verb: Verb) -> None:
    made = signed(verb=verb)

    passed = judge_raw_order(made.envelope, world())

    assert (passed.order, passed.signers) == (made.order, (GUARD.id,))
    assert judge_raw_order(made.envelope, world(policy=None)).signers == ()


@pytest.mark.parametrize(
    ("raw", "around", "reason"),
    [
        pytest.param(signed(key=DESK).envelope, {}, Reason.BAD_SIGNATURE, id="a key that commands"),
        pytest.param(signed(hub=hub_id("venue-8")).envelope, {}, Reason.WRONG_HUB, id="another hub"),
        pytest.param(signed(epoch=new_epoch(1, 1)).envelope, {}, Reason.WRONG_EPOCH, id="another epoch"),
        pytest.param(signed().envelope, {"epoch": None}, Reason.WRONG_EPOCH, id="before any hello"),
        pytest.param(signed().envelope, {"now": NOON + timedelta(hours=2)}, Reason.EXPIRED, id="over"),
        pytest.param(signed().envelope, {"policy": policy('["venue-8"]')}, Reason.NO_POLICY, id="not for it"),
        pytest.param(signed().envelope[:-9], {}, Reason.MALFORMED, id="half of it"),
        pytest.param(sign(b"{}", ORDER_TYPE, [GUARD]), {}, Reason.MALFORMED, id="no order inside"),
        pytest.param(b" " * (ORDER_BYTES + 1), {}, Reason.TOO_LARGE, id="too large"),
        pytest.param(
            signed(verb=Verb.RESUME).envelope,
            {"now": NOON - timedelta(hours=1)},
            Reason.NOT_YET_VALID,
            id="a resume from the future",
        ),
        pytest.param(
            signed(verb=Verb.RESUME).envelope,
            {"policy_until": NOON},
            Reason.POLICY_EXPIRED,
            id="a resume when what stands behind the policy is over",
        ),
        pytest.param(
            signed(verb=Verb.RESUME).envelope,
            {"policy": policy().model_copy(update={"expires_at": NOON}), "policy_until": NOON + timedelta(1)},
            Reason.POLICY_EXPIRED,
            id="a resume when the policy's own end comes first",
        ),
    ],
)
def test_what_the_hub_would_refuse_is_refused_at_once(
    raw: bytes, around: dict[str, object], reason: Reason
) -> None:
    with pytest.raises(GateRefusedError) as refused:
        judge_raw_order(raw, world(**around))

    assert refused.value.reason is reason


@pytest.mark.parametrize("verb", Verb)
async def test_an_order_goes_through_the_queue_and_ends_with_the_event_that_names_it(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub, verb: Verb
) -> None:
    made = signed(hub=hub.id, verb=verb, clock=real_clock())

    taken = await cloud.send_envelope(hub.id, made.envelope)
    again = await cloud.send_envelope(hub.id, made.envelope)
    assert taken == again
    assert (taken.id, taken.devices, taken.action) == (made.order.id, [], None)
    [lent] = await greeted.lease(most=5, wait=timedelta(0), hold=timedelta(seconds=30))
    assert lent.envelope == made.envelope
    await greeted.acknowledge([lent.handle])
    kind = EventType.STOPPED if verb is Verb.STOP else EventType.RESUMED
    data: dict[str, JsonValue] = {"order": made.order.id, "payload_sha256": taken.payload_sha256}
    data |= {"kind": "all", "by": GUARD.id, "why": "", "refused": 0}
    told = replace(stored(2, kind, data), device=None)
    await greeted.upload(batch(hub.id, [told]))

    status = await cloud.status(hub.id, made.order.id)

    assert status.state is CommandState.FINAL
    assert [event.type for event in status.results] == [kind]


async def test_one_that_the_hub_refuses_ends_too(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    made = signed(hub=hub.id, clock=real_clock())
    taken = await cloud.send_envelope(hub.id, made.envelope)
    data = {"command": made.order.id, "payload_sha256": taken.payload_sha256, "reason": "not_later"}
    told = replace(stored(2, EventType.REFUSED, {**data, "detail": "", "issuer": GUARD.id}), device=None)
    await greeted.upload(batch(hub.id, [told]))

    status = await cloud.status(hub.id, made.order.id)

    assert status.state is CommandState.FINAL
    assert [event.data["reason"] for event in status.results] == ["not_later"]


@pytest.mark.usefixtures("greeted")
async def test_another_order_under_its_id_is_a_conflict(cloud: IssuerClient, hub: KnownHub) -> None:
    made = signed(hub=hub.id, clock=real_clock())
    await cloud.send_envelope(hub.id, made.envelope)
    other = made.order.model_copy(update={"why": "another"})

    with pytest.raises(RefusedByQueueError) as refused:
        await cloud.send_envelope(hub.id, sign(encode(other), ORDER_TYPE, [GUARD]))

    assert refused.value.reason == "id_conflict"
    assert (await cloud.hub(hub.id)).waiting == 1
