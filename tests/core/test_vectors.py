"""The vectors for other languages are what this gate says, and nobody has to believe the file."""

from dataclasses import replace
from datetime import timedelta

import pytest

from edgeagent.clock import BootId, ClockSource, Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.order import ORDER_BYTES, Order, Verb
from edgeagent.contracts.policy import Policy, RoleKind
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, Verified, verify
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.roles import keys_of as stop_keys
from edgeagent.core.gate.verdict import Accept, Duplicate, Hold, Moment, Refuse, Verdict
from edgeagent.core.gate.world import World
from edgeagent.core.stops import Obey, OrderWorld, Standing, judge_order
from edgeagent.errors import MalformedError
from tests.core.gating import Lamp, shadow
from tests.support.clocks import FIRST_BOOT
from tests.vectors.making import compact
from tests.vectors.vector import FILE, TYPES, Kind, Stage, Terms, Vector, load
from tests.vectors.whole import text

ALL = load()
NAMES = {vector.name for vector in ALL.vectors}

pytestmark = pytest.mark.requirement("P1", "T1")


def policy_of(vector: Vector) -> Policy:
    """The policy that a vector is judged by."""
    return decode(Policy, compact(ALL.policies[vector.policy].document), limit=10_000)


def keys_of(vector: Vector) -> Keyring:
    """The keys whose word counts."""
    return raw_keys(ALL.policies[vector.policy], vector.kind)


def raw_keys(terms: Terms, kind: Kind) -> Keyring:
    """The keys whose word counts for a kind of document."""
    return {id_: bytes.fromhex(public) for id_, public in terms.keys[kind].items()}


def believed(vector: Vector) -> Verified:
    """What a known key has signed.

    Raises:
        RefusedEnvelopeError: nobody known has.
    """
    type_, most = TYPES[vector.kind]
    return verify(vector.raw, keys_of(vector), type_, limit=most)


def world_of(vector: Vector) -> World:
    """The hub that a vector comes to; its only device is a lamp."""
    error = None if vector.error is None else timedelta(milliseconds=vector.error)
    wall = Wall(
        best=vector.time,
        earliest=vector.time - (error or timedelta(0)),
        latest=None if error is None else vector.time + error,
        source=ClockSource.NONE if error is None else ClockSource.STATEMENT,
    )
    return World(
        hub=vector.hub,
        epoch=vector.epoch,
        policy=policy_of(vector),
        operator_key=None,
        wall=wall,
        boot=(BootId(FIRST_BOOT), timedelta(hours=1)),
    )


def answered(vector: Vector) -> tuple[Stage, str, str | None]:
    """How far a vector comes at this gate, and what the gate says."""
    try:
        verified = believed(vector)
    except RefusedEnvelopeError as why:
        return Stage.ENVELOPE, "refused", why.reason
    try:
        verdict = judged(vector) if vector.kind is Kind.COMMAND else obeyed(vector, verified)
    except RefusedEnvelopeError as why:
        return Stage.COMMAND, "refused", why.reason
    except MalformedError:
        return Stage.COMMAND, "refused", Reason.MALFORMED
    match verdict:
        case Accept() | Obey():
            return Stage.GATE, "accepted", None
        case Hold(reason=reason):
            return Stage.GATE, "held", reason
        case Refuse(reason=reason):
            return Stage.GATE, "refused", reason
        case _:
            raise AssertionError(verdict)


def obeyed(vector: Vector, verified: Verified) -> Obey | Refuse | Duplicate:
    """What is said to an order that a known key has signed."""
    order, around = decode(Order, verified.payload, limit=ORDER_BYTES), world_of(vector)
    return judge_order(
        order,
        verified,
        OrderWorld(
            hub=around.hub,
            epoch=around.epoch,
            policy=around.policy,
            until=None,
            wall=around.wall,
            last=None
            if vector.last is None
            else Standing(kind=order.kind, verb=Verb.STOP, sequence=vector.last, by="", why="", at=0),
        ),
    )


def judged(vector: Vector) -> Verdict:
    """What the gate says of a vector that a known key has signed."""
    asked = next(each for each in opened(vector.raw, keys_of(vector)) if vector.device in {None, each.device})
    around = world_of(vector)
    if asked.device == "lamp-1":
        around = replace(around, device=Lamp(), shadow=shadow())
    return judge(asked, around, Moment.ADMIT)


@pytest.mark.parametrize("vector", ALL.vectors, ids=lambda vector: vector.name)
def test_the_gate_says_to_each_vector_what_the_file_says(vector: Vector) -> None:
    assert answered(vector) == (vector.stage, vector.answer, vector.reason)


def test_the_file_is_what_is_made_of_published_keys() -> None:
    """``python -m tests.vectors`` makes it anew."""
    assert FILE.read_text("utf-8") == text()


def test_no_two_vectors_have_a_name_or_their_bytes_in_common() -> None:
    cases = {
        (each.raw, each.policy, each.device, each.hub, each.epoch, each.time, each.error, each.last)
        for each in ALL.vectors
    }

    assert len(NAMES) == len(ALL.vectors)
    assert len(cases) == len(ALL.vectors)


@pytest.mark.parametrize("terms", ALL.policies.values(), ids=ALL.policies.keys())
def test_the_keys_that_the_file_lists_are_those_of_the_policys_command_and_stop_roles(terms: Terms) -> None:
    policy = decode(Policy, compact(terms.document), limit=10_000)

    assert keyring(policy, ALL.vectors[0].hub, None) == raw_keys(terms, Kind.COMMAND)
    assert stop_keys(policy, {RoleKind.STOP}) == raw_keys(terms, Kind.ORDER)


def test_every_reason_that_bytes_keys_policy_and_time_can_give_has_a_vector() -> None:
    told = {vector.reason for vector in ALL.vectors}

    assert told - {None} == {
        Reason.TOO_LARGE,
        Reason.MALFORMED,
        Reason.WRONG_PAYLOAD_TYPE,
        Reason.BAD_SIGNATURE,
        Reason.WRONG_HUB,
        Reason.WRONG_EPOCH,
        Reason.EXPIRED,
        Reason.CLOCK_UNSURE,
        Reason.NOT_YET_VALID,
        Reason.VALID_TOO_LONG,
        Reason.NEEDS_APPROVAL,
        Reason.BANNED,
        Reason.NOT_LATER,
        Reason.POLICY_EXPIRED,
        Reason.NOT_ALLOWED,
        Reason.DEVICE_UNKNOWN,
        Reason.UNSUPPORTED_ACTION,
        Reason.BAD_ARGUMENTS,
    }
