"""Incident 2: accepted commands whose targets are off the list when the worker comes to them (SPEC B5).

Reboots are approved while nobody works them; then another policy lets the desk reboot fewer devices, or a
device is let go. The worker finds out right before the act: permanent, not tried again, kept as dead letters,
on record; and when there are too many the action is quarantined for its origin. Other actions go on.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.policy import BreakerRule, Role, RoleKind, WhenOpen
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.contracts.reports.audit import AuditRowsReport
from edgeagent.contracts.reports.dead_letters import LettersReport
from edgeagent.ids import DeviceId
from edgeagent.issuer.commands import SignedCommand
from tests.acceptance.event_schema import misfits
from tests.support.agents_venue import HUB
from tests.support.agents_worker import WorkedVenue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("B5", "E1", "D1", "V4")]

ENOUGH: Final = 3
"""How many commands off the list open the breaker."""
_WORKED: Final = 60.0


def desk_may(reboots: Sequence[DeviceId] | None = None) -> dict[str, Role]:
    """What the desk may do: everything, but reboot only some."""
    rest = frozenset(ActionName) - {ActionName.REBOOT}
    keys = frozenset({"desk"})
    devices: frozenset[DeviceId] | Literal["*"] = "*" if reboots is None else frozenset(reboots)
    return {
        "operators": Role(kind=RoleKind.COMMAND, keys=keys, actions=rest, devices="*"),
        "rebooters": Role(
            kind=RoleKind.COMMAND, keys=keys, actions=frozenset({ActionName.REBOOT}), devices=devices
        ),
    }


def opened(folder: Path, *, open_for: timedelta) -> WorkedVenue:
    """A venue with four plugs, whose breakers open early; nothing runs yet."""
    # Half as many open it for an action of the high tier.
    rule = BreakerRule(off_target=2 * ENOUGH, open_for=open_for, when_open=WhenOpen.QUARANTINE)
    venue = WorkedVenue(folder, plugs=ENOUGH + 1, terms={"breaker": rule})
    venue.keys.roles = desk_may()
    return venue


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[WorkedVenue]:
    """A venue whose agent runs, and no worker; a breaker that opens stays open for long."""
    with opened(tmp_path, open_for=timedelta(minutes=10)) as running:
        running.open()
        yield running


def has_policy(venue: WorkedVenue, *, reboots: Sequence[DeviceId]) -> None:
    """Put another policy in force at the hub; the queue's gate has the earlier one."""
    venue.keys.roles = desk_may(reboots)
    venue.keys.terms = {**venue.keys.terms, "version": 2}
    assert venue.agent.stop() == 0
    (venue.agent.folder / "policy.json").write_bytes(venue.keys.policy(HUB))
    venue.agent.start()
    venue.agent.wait_for_broker()
    assert venue.agent.status().policy.version == 2


def found_off_the_list(venue: WorkedVenue) -> list[SignedCommand]:
    """Reboots of all plugs but the last, approved, then taken off the desk's list, then worked."""
    *withdrawn, kept = venue.devices
    orders = [venue.approved(device, ActionName.REBOOT) for device in withdrawn]
    has_policy(venue, reboots=[kept])
    venue.new_worker().start()
    for order in orders:
        receipt = venue.end_of(order, within=_WORKED)
        assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, "not_allowed")
    return orders


def receipts(venue: WorkedVenue, *orders: SignedCommand) -> list[Receipt]:
    """The one receipt of each."""
    return [venue.end_of(order) for order in orders]


@pytest.mark.requirement("B1", "B2", "A1", "U8")
def test_commands_that_are_off_the_list_at_the_worker_are_buried_and_their_action_is_quarantined(
    venue: WorkedVenue,
) -> None:
    kept = venue.devices[-1]
    orders = found_off_the_list(venue)

    late = venue.order(kept, ActionName.REBOOT)
    power = venue.order(kept, ActionName.POWER, {"on": True})

    # Each was claimed and refused: never sent, never tried again.
    ends = receipts(venue, *orders)
    assert [(end.attempts, end.fence > 0) for end in ends] == [(0, True)] * ENOUGH
    assert [venue.effects(device, ActionName.REBOOT) for device in venue.devices] == [0] * (ENOUGH + 1)
    rows = query(venue.agent.database, "SELECT state, attempts, losses FROM inbox WHERE action = 'reboot'")
    assert rows[:ENOUGH] == [("refused", 0, 0)] * ENOUGH
    # The action is quarantined for its origin, also on a device that is on the list; others go on.
    [end] = receipts(venue, late)
    assert (end.outcome, end.reason, end.fence) == (Outcome.REFUSED, "breaker_open", 0)
    assert receipts(venue, power)[0].outcome is Outcome.SUCCEEDED
    # And that is what the operator reads.
    letters = LettersReport.model_validate_json(
        venue.agent.run("--json", "dead-letters", "list").stdout
    ).letters
    assert {(one.command, one.reason, one.blame, one.attempts) for one in letters} == {
        *((order.command.id, "not_allowed", "permanent", 0) for order in orders),
        (late.command.id, "breaker_open", "transient", 0),
    }
    assert len(letters) == ENOUGH + 1
    assert "reboot@desk  open" in venue.agent.run("breakers", "list").stdout
    shown = venue.agent.run("breakers", "show", "reboot@desk").stdout
    assert "stands    open, commands: quarantine" in shown
    assert f"by off_target: {ENOUGH} times off_target" in shown
    for order in orders:
        assert kinds(venue, order) == STORY
        said = venue.agent.run("audit", "list", "--subject", order.command.id).stdout
        assert '"blame":"permanent","dead_letter":' in said
        assert '"reason":"not_allowed"' in said
    assert kinds(venue, late) == ["command_refused"]
    assert "breaker_opened" in venue.agent.run("audit", "list").stdout
    assert misfits(venue.cloud.events(Stream.RECORD)) == []
    alerts = [one.data for one in venue.cloud.told(EventType.ALERT) if one.data["reason"] == "breaker_open"]
    assert [(one["action"], one["signal"]) for one in alerts] == [("reboot", "off_target")]
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


STORY: Final = ["command_held", "command_approved", "command_accepted", "command_claimed", "command_settled"]
"""What is on record of a command that was let in, and is off the list when its worker comes."""


def kinds(venue: WorkedVenue, order: SignedCommand) -> list[str]:
    """What ``audit list --subject`` tells of a command, oldest first."""
    words = ("--json", "audit", "list", "--subject", order.command.id, "--most", "50")
    return [row.kind for row in AuditRowsReport.model_validate_json(venue.agent.run(*words).stdout).rows]


@pytest.mark.requirement("B2")
def test_an_operator_who_has_seen_to_it_resets_the_breaker_and_the_action_is_taken_again(
    venue: WorkedVenue,
) -> None:
    kept = venue.devices[-1]
    found_off_the_list(venue)

    said = venue.agent.run("breakers", "reset", "reboot@desk", "--reason", "the list was wrong")
    reboot = venue.approved(kept, ActionName.REBOOT)

    assert said.returncode == 0
    assert receipts(venue, reboot)[0].outcome is Outcome.SUCCEEDED
    assert venue.effects(kept, ActionName.REBOOT) == 1
    closed = venue.agent.run("audit", "list", "--kind", "breaker_closed").stdout
    assert "the list was wrong" in closed
    assert "uid:" in closed


@pytest.mark.requirement("B2")
def test_when_its_time_is_over_one_command_may_try_and_closes_it(tmp_path: Path) -> None:
    with opened(tmp_path, open_for=timedelta(seconds=1)) as venue:
        venue.open()
        kept = venue.devices[-1]
        found_off_the_list(venue)
        wait_until(
            lambda: "half_open" in venue.agent.run("breakers", "list").stdout, "the breaker to let one try"
        )

        probe = venue.approved(kept, ActionName.REBOOT)

        assert receipts(venue, probe)[0].outcome is Outcome.SUCCEEDED
        assert "no breaker is open" in venue.agent.run("breakers", "list").stdout
        assert kinds(venue, probe)[-1] == "command_settled"
        assert "breaker_probed" in venue.agent.run("audit", "list").stdout
        assert "breaker_closed" in venue.agent.run("audit", "list").stdout


@pytest.mark.requirement("M11")
def test_a_device_that_was_let_go_meanwhile_is_off_the_list_too(venue: WorkedVenue) -> None:
    gone = venue.devices[0]
    order = venue.approved(gone, ActionName.REBOOT)
    assert venue.agent.run("devices", "forget", gone).returncode == 0

    venue.new_worker().start()
    [end] = receipts(venue, order)

    assert (end.outcome, end.reason, end.attempts) == (Outcome.REFUSED, "device_unknown", 0)
    assert venue.effects(gone, ActionName.REBOOT) == 0
    assert "device_unknown" in venue.agent.run("dead-letters", "list").stdout
