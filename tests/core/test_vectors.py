"""The vectors for other languages are what this gate says, and nobody has to believe the file."""

from dataclasses import replace
from datetime import timedelta

import pytest

from edgeagent.clock import BootId, ClockSource, Wall
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, verify
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.verdict import Accept, Hold, Moment, Refuse, Verdict
from edgeagent.core.gate.world import World
from tests.core.gating import Lamp, shadow
from tests.support.clocks import FIRST_BOOT
from tests.vectors.making import compact
from tests.vectors.vector import FILE, Stage, Terms, Vector, load
from tests.vectors.whole import text

ALL = load()
NAMES = {vector.name for vector in ALL.vectors}

pytestmark = pytest.mark.requirement("P1", "T1")


def policy_of(vector: Vector) -> Policy:
    """The policy that a vector is judged by."""
    return decode(Policy, compact(ALL.policies[vector.policy].document), limit=10_000)


def keys_of(terms: Terms) -> Keyring:
    """The keys whose word counts."""
    return {id_: bytes.fromhex(public) for id_, public in terms.keys.items()}


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
    keys = keys_of(ALL.policies[vector.policy])
    try:
        verify(vector.raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)
    except RefusedEnvelopeError as why:
        return Stage.ENVELOPE, "refused", why.reason
    try:
        verdict = judged(vector, keys)
    except RefusedEnvelopeError as why:
        return Stage.COMMAND, "refused", why.reason
    match verdict:
        case Accept():
            return Stage.GATE, "accepted", None
        case Hold(reason=reason):
            return Stage.GATE, "held", reason
        case Refuse(reason=reason):
            return Stage.GATE, "refused", reason
        case _:
            raise AssertionError(verdict)


def judged(vector: Vector, keys: Keyring) -> Verdict:
    """What the gate says of a vector that a known key has signed."""
    asked = next(each for each in opened(vector.raw, keys) if vector.device in {None, each.device})
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
        (each.raw, each.policy, each.device, each.hub, each.epoch, each.time, each.error)
        for each in ALL.vectors
    }

    assert len(NAMES) == len(ALL.vectors)
    assert len(cases) == len(ALL.vectors)


@pytest.mark.parametrize("terms", ALL.policies.values(), ids=ALL.policies.keys())
def test_the_keys_that_the_file_lists_are_those_of_the_policys_command_roles(terms: Terms) -> None:
    policy = decode(Policy, compact(terms.document), limit=10_000)

    assert keyring(policy, ALL.vectors[0].hub, None) == keys_of(terms)


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
        Reason.POLICY_EXPIRED,
        Reason.NOT_ALLOWED,
        Reason.DEVICE_UNKNOWN,
        Reason.UNSUPPORTED_ACTION,
        Reason.BAD_ARGUMENTS,
    }
