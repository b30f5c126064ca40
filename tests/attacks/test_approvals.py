"""T48: an approval is good for one payload, once, in time, and only if it is somebody else's.

The queue is the attacker's, and so is the desk's key: what is tried is everything but a second person.
"""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_TYPE
from edgeagent.contracts.door import encode
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import Signer, merged, sign, unproven_payload
from edgeagent.issuer.commands import SignedCommand
from tests.attacks.offices import Offices
from tests.attacks.wrong_hands import Hands, in_wrong_hands, signatures_of
from tests.cli.building import Said, typed
from tests.support.agents_venue import PLUG
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T7"), pytest.mark.threat("T48")]

TOGGLE: Final = ActionName.TOGGLE
SHORT: Final = timedelta(seconds=5)
WAITS_AGAIN: Final = ("waiting", "needs_approval")
"""As what had begun and may not go on."""


@pytest.fixture(scope="module")
def keys() -> Offices:
    return Offices()


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory, keys: Offices) -> Iterator[Hands]:
    """A venue for all stories: each leaves its commands behind, which stand there and do nothing."""
    with in_wrong_hands(tmp_path_factory.mktemp("venue"), keys) as running:
        yield running


def approved(order: SignedCommand, *signers: Signer) -> bytes:
    """Somebody's signature under what was signed by others."""
    return sign(unproven_payload(order.envelope), COMMAND_TYPE, signers)


def with_signatures_of(order: SignedCommand, other: bytes) -> bytes:
    """An envelope with its own signatures, and with those that stand under something else."""
    own, foreign = signatures_of(order.envelope), signatures_of(other)
    return encode(own.model_copy(update={"signatures": [*own.signatures, *foreign.signatures]}))


def said_at_the_hub(hands: Hands, order: SignedCommand) -> Said:
    """What comes of a person at the hub who agrees to it."""
    config = str(hands.venue.agent.config)
    return typed("--config", config, "commands", "approve", order.command.id, "--yes")


def toggled(hands: Hands) -> int:
    return hands.venue.effects(PLUG, TOGGLE)


# Signatures that are none of somebody else's under this very command.


def alone(_hands: Hands, _keys: Offices, order: SignedCommand) -> bytes:
    return order.envelope


def by_the_issuers_own_key(_hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    """It holds both roles; listed twice it is still one."""
    return with_signatures_of(order, approved(order, keys.desk))


def by_the_issuers_key_in_the_chiefs_name(_hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    own, chiefs = signatures_of(order.envelope), signatures_of(approved(order, keys.chief))
    forged = own.signatures[0].model_copy(update={"keyid": chiefs.signatures[0].keyid})
    return encode(own.model_copy(update={"signatures": [*own.signatures, forged]}))


def with_the_chiefs_signature_under_another(hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    other = hands.sign(TOGGLE, by=[keys.desk])
    return with_signatures_of(order, approved(other, keys.chief))


def with_the_chiefs_signature_under_another_kind(_hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    payload = unproven_payload(order.envelope)
    return with_signatures_of(order, sign(payload, "application/vnd.edgeagent.order.v1+json", [keys.chief]))


def by_whoever_approves_elsewhere(_hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    return merged(order.envelope, approved(order, keys.porter))


def by_whoever_approved_until_yesterday(_hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    return merged(order.envelope, approved(order, keys.retired))


def by_who_has_other_roles(_hands: Hands, keys: Offices, order: SignedCommand) -> bytes:
    return merged(order.envelope, approved(order, keys.guard, keys.time, keys.night, keys.root))


NONE: Final[list[Callable[[Hands, Offices, SignedCommand], bytes]]] = [
    alone,
    by_the_issuers_own_key,
    by_the_issuers_key_in_the_chiefs_name,
    with_the_chiefs_signature_under_another,
    with_the_chiefs_signature_under_another_kind,
    by_whoever_approves_elsewhere,
    by_whoever_approved_until_yesterday,
    by_who_has_other_roles,
]


@pytest.mark.parametrize("together", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize("signed", NONE, ids=lambda signed: signed.__name__)
def test_what_nobody_else_has_signed_waits_and_is_not_done(
    hands: Hands,
    keys: Offices,
    signed: Callable[[Hands, Offices, SignedCommand], bytes],
    together: bool,  # noqa: FBT001 - a column of the table
) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk], valid_for=timedelta(minutes=1))
    before = toggled(hands)
    envelope = signed(hands, keys, order)

    if not together:
        hands.deliver(order.envelope)
    hands.deliver(envelope, times=5)

    assert hands.waits_for_approval(order)
    assert toggled(hands) == before
    assert query(hands.venue.agent.database, "SELECT 1 FROM approvals") == []


def test_a_payload_that_was_changed_after_it_was_approved_is_another_and_is_refused(
    hands: Hands, keys: Offices
) -> None:
    order = hands.sign(ActionName.REBOOT, by=[keys.desk])
    hands.deliver(order.envelope)
    agreed = approved(order, keys.chief)
    before = hands.contents()
    forged = order.command.model_copy(update={"action": TOGGLE})
    again = sign(encode(forged), COMMAND_TYPE, [keys.desk])

    swapped = signatures_of(agreed).model_copy(update={"payload": encode(forged)})
    both = signatures_of(again)
    hands.deliver(
        encode(swapped),
        again,
        encode(both.model_copy(update={"signatures": [*both.signatures, *swapped.signatures]})),
    )

    assert hands.waits_for_approval(order)
    assert hands.contents() == before
    assert (order.command.id, Reason.ID_CONFLICT) in hands.refusals("command_refused")


def test_an_approval_before_its_command_is_not_kept_for_it(hands: Hands, keys: Offices) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk])
    before = hands.contents()

    hands.deliver(approved(order, keys.chief), times=3)
    said = said_at_the_hub(hands, order)

    assert hands.contents() == before
    assert (said.status, order.command.id in said.err) == (1, True)
    hands.deliver(order.envelope)
    assert hands.waits_for_approval(order)
    assert hands.effects() == before["effects"][0][0]


def test_an_approval_that_comes_again_is_good_for_nothing_more(hands: Hands, keys: Offices) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk])
    count = toggled(hands)
    agreed = approved(order, keys.chief)
    hands.deliver(order.envelope, agreed)
    assert hands.ended(order) == (Outcome.SUCCEEDED, None)
    assert toggled(hands) == count + 1
    before = hands.contents()

    hands.deliver(agreed, merged(order.envelope, agreed), times=20)
    said = said_at_the_hub(hands, order)
    assert hands.contents() == before
    next_one = hands.sign(TOGGLE, by=[keys.desk], operation=order.command.operation)
    hands.deliver(next_one.envelope, with_signatures_of(next_one, agreed))

    assert said.status == 1
    assert hands.ended(next_one) == (Outcome.REFUSED, Reason.OPERATION_DONE)
    other = hands.sign(TOGGLE, by=[keys.desk])
    hands.deliver(other.envelope, with_signatures_of(other, agreed), agreed)
    assert hands.waits_for_approval(other)
    assert toggled(hands) == count + 1


def test_an_approval_of_what_has_expired_brings_nothing_back(hands: Hands, keys: Offices) -> None:
    order = hands.sign(TOGGLE, by=[keys.desk], valid_for=SHORT)
    count = toggled(hands)
    hands.deliver(order.envelope)
    assert hands.ended(order) == (Outcome.EXPIRED, Reason.EXPIRED)
    before = hands.contents()

    hands.deliver(approved(order, keys.chief), approved(order, keys.desk, keys.chief))
    said = said_at_the_hub(hands, order)

    assert said.status == 1
    assert hands.contents() == before
    assert toggled(hands) == count


def test_whoever_typed_it_cannot_agree_to_it(hands: Hands) -> None:
    count = toggled(hands)
    typed_here = hands.venue.agent.send(PLUG, TOGGLE, wait=timedelta(0))
    assert typed_here.command is not None
    before = hands.contents()

    config = str(hands.venue.agent.config)
    said = typed("--config", config, "commands", "approve", typed_here.command.command, "--yes")

    assert said.status == 1
    assert "whoever typed" in said.err
    assert hands.contents() == before
    assert hands.stands(typed_here.command.command) == [("held", "needs_approval")]
    assert toggled(hands) == count


def test_a_word_at_the_hub_is_over_after_its_time_and_counts_for_no_other(
    hands: Hands, keys: Offices
) -> None:
    order = hands.sign(ActionName.REBOOT, by=[keys.desk])
    other = hands.sign(ActionName.REBOOT, by=[keys.night])
    hands.venue.unplug()
    wait_until(lambda: hands.venue.agent.device(PLUG).online is False, "the plug to be gone")
    hands.deliver(order.envelope, other.envelope)

    said = said_at_the_hub(hands, order)
    [until] = query(hands.venue.agent.database, "SELECT max(until) FROM approvals")[0]
    wait_until(lambda: _boot_milliseconds() > int(str(until)), "the word to be over")
    hands.venue.plug_in()

    assert said.status == 0, said.err
    wait_until(
        lambda: (
            hands.stands(order.command.id) in ([("waiting", "needs_approval")], [("held", "needs_approval")])
        ),
        "it to wait for somebody again",
    )
    assert hands.waits_for_approval(other)
    assert hands.venue.effects(PLUG, ActionName.REBOOT) == 0


def _boot_milliseconds() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def test_after_all_this_what_two_people_agree_on_is_done_once(hands: Hands, keys: Offices) -> None:
    count = toggled(hands)
    order = hands.sign(TOGGLE, by=[keys.night])

    hands.deliver(merged(order.envelope, approved(order, keys.desk)), times=10)

    assert hands.ended(order) == (Outcome.SUCCEEDED, None)
    assert toggled(hands) == count + 1
