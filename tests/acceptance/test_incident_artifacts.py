"""Incident 1: a burst of artifacts that nobody has approved, on a living venue (SPEC B4).

A supplier's key signs them one after the other. The queue's gate refuses them, and they reach no hub; sent
past it, by a queue in the wrong hands, they are refused at the hub. Both count them for the supplier and stop
its action; the desk's commands go on at both. Nothing is queued, locked, retried or sent.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.policy import BreakerRule, Role, RoleKind
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.audit import AuditRowsReport
from edgeagent.core.audit_chain import AuditKind
from edgeagent.ids import KeyId, artifact_id, digest
from edgeagent.issuer.commands import SignedCommand
from edgeagent.issuer.keys import PrivateKey
from tests.acceptance.event_schema import misfits
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_cloud import RefusedByCloudError
from tests.support.agents_keys import Keys
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.private import write_private
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("B4", "V3")]

APPROVED, ANOTHER = "5e" * 32, "6f" * 32
ARTIFACT: Final = "plug-1.4.2"
BURST, ENOUGH = 25, 8
"""How many there are, and how many of them open a breaker."""
SUPPLIERS: Final = Role(
    kind=RoleKind.COMMAND,
    keys=frozenset({"supplier"}),
    actions=frozenset({ActionName.INSTALL}),
    devices="*",
)
# What the agent sends to a plug; what a plug says is no such topic.
_SENT: Final = "Received PUBLISH from edgeagent-venue-7-"
_COMMAND: Final = re.compile(r"'cmnd/[^/]+/(?!Stat(us|e)')")
"""Of questions there may be some at any time."""


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with one plug, whose broker tells every packet; the agent is not started."""
    terms = {
        "artifacts": {artifact_id(ARTIFACT): frozenset({digest(APPROVED)})},
        "breaker": BreakerRule(refusals=ENOUGH, off_target=ENOUGH),
    }
    keys = Keys(roles={"suppliers": SUPPLIERS}, terms=terms)
    options = ("max_queued_messages 0", "log_type all")
    with Venue(tmp_path, cloud_port=port, keys=keys, broker_options=options) as running:
        yield running


def install(venue: Venue, sha256: str, *, by: PrivateKey) -> SignedCommand:
    """A signed command to install a file on the plug."""
    return venue.sign(PLUG, ActionName.INSTALL, {"artifact": ARTIFACT, "digest": sha256}, by=by)


def answer(venue: Venue, order: SignedCommand) -> str:
    """What the queue's gate says to a command: the reason, or that it is queued."""
    try:
        return venue.cloud.send(order.envelope).state
    except RefusedByCloudError as why:
        return str(json.loads(why.body)["reason"])


def trail(venue: Venue, *commands: SignedCommand) -> list[tuple[str, str, dict[str, object]]]:
    """What an operator reads of these commands, or of all: kind, subject and details, oldest first."""
    said = venue.agent.run("--json", "audit", "list", "--most", "200").stdout
    ids = {order.command.id for order in commands}
    rows = AuditRowsReport.model_validate_json(said).rows
    return [(row.kind, row.subject, json.loads(row.detail)) for row in rows if not ids or row.subject in ids]


def sent_to_devices(log: str) -> list[str]:
    """What the agent published on topics that make a device do something."""
    return [line for line in log.splitlines() if _SENT in line and _COMMAND.search(line)]


@pytest.mark.requirement("V7", "B1")
def test_the_queues_gate_refuses_a_burst_stops_its_origin_and_lets_others_pass(
    venue: Venue, queue: ReplayingQueue
) -> None:
    """Nothing of it comes near the hub: ``queue`` lends nothing that it was not given."""
    assert queue is not None
    supplier, desk = venue.keys.supplier, venue.keys.desk

    said = [answer(venue, install(venue, ANOTHER, by=supplier)) for _ in range(BURST)]
    good_but_stopped = answer(venue, install(venue, APPROVED, by=supplier))
    of_another = answer(venue, install(venue, APPROVED, by=desk))

    assert said == ["artifact_not_approved"] * BURST
    assert good_but_stopped == "breaker_open"
    assert of_another == "queued"
    told = refusals(venue)
    assert f"stopped: install of {supplier.id}" in told
    assert desk.id not in told
    counted = [line for line in told.splitlines() if "artifact_not_approved" in line and supplier.id in line]
    assert sum(int(line.split()[2]) for line in counted) == BURST
    assert query(venue.agent.database, "SELECT count(*) FROM inbox") == [(0,)]


@pytest.mark.requirement("B1", "T9", "A1", "U8")
@pytest.mark.threat("T14", "T52")
def test_sent_past_the_queues_gate_a_burst_is_refused_at_the_hub_and_read_from_the_trail(
    venue: Venue, queue: ReplayingQueue
) -> None:
    supplier, desk = venue.keys.supplier, venue.keys.desk
    burst = [install(venue, ANOTHER, by=supplier) for _ in range(BURST)]
    assert {answer(venue, order) for order in burst} == {"artifact_not_approved"}
    before = len(venue.broker.log)

    for order in burst:
        queue.lend(order.envelope)
    queue.wait_until_taken()
    wait_until(lambda: "breaker_refused" in venue.agent.run("audit", "list").stdout, "the breaker's refusals")
    meanwhile = sent_to_devices(venue.broker.log[before:])
    rows = query(venue.agent.database, "SELECT state, reason, attempts FROM inbox")
    locked = query(venue.agent.database, "SELECT device FROM locks")
    power, other = venue.sign(PLUG, ActionName.POWER, {"on": True}), install(venue, APPROVED, by=desk)
    for order in (power, other):
        queue.lend(order.envelope)
    wait_until(lambda: len(receipts(venue, power, other)) == 2, "the receipts of the desk's commands")

    # The supplier's: the first are on record each, the others are counted, and none has begun.
    assert rows == [("refused", "artifact_not_approved", 0)] * ENOUGH
    assert query(venue.agent.database, "SELECT count(*) FROM dead_letters") == [(0,)]
    assert (locked, meanwhile) == ([], [])
    assert venue.effects(PLUG, ActionName.INSTALL) == 0
    # The desk's: one is done, and the other is refused, by no breaker: nobody signs for the approved file.
    assert receipts(venue, power) == [(Outcome.SUCCEEDED, None)]
    assert receipts(venue, other) == [(Outcome.REFUSED, "artifact_unsigned")]
    assert sent_to_devices(venue.broker.log[before:]) != []
    assert misfits(venue.cloud.events(Stream.RECORD)) == []
    [alert] = [one.data for one in venue.cloud.told(EventType.ALERT) if one.data["reason"] == "breaker_open"]
    assert (alert["action"], alert["origin"], alert["signal"]) == ("install", supplier.id, "invalid")
    # What is counted is written at the latest when the agent stops; the breaker outlives it.
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
    venue.agent.start()
    reads_the_story(venue, burst, supplier.id)


def reads_the_story(venue: Venue, burst: Sequence[SignedCommand], supplier: KeyId) -> None:
    """What ``audit list`` and ``breakers`` tell whoever looks: who asked what, and how often."""
    told = trail(venue, *burst)
    assert [(kind, detail["reason"]) for kind, _, detail in told] == [
        (AuditKind.COMMAND_REFUSED, "artifact_not_approved")
    ] * ENOUGH
    assert {detail["issuer"] for _, _, detail in told} == {supplier}
    assert {str(detail["detail"]) for _, _, detail in told} == {
        f"{ANOTHER[:12]}… is not approved as {ARTIFACT}"
    }
    [opened] = [
        detail for kind, subject, detail in trail(venue) if (kind, subject) == ("breaker_opened", "install")
    ]
    assert opened["origin"] == supplier
    assert f"last artifact_not_approved: {ANOTHER[:12]}" in str(opened["why"])
    counted = [detail for kind, _, detail in trail(venue) if kind == AuditKind.BREAKER_REFUSED]
    assert sum(int(str(detail["count"])) for detail in counted) == BURST - ENOUGH

    listed = venue.agent.run("audit", "list", "--most", "200").stdout
    assert "breaker_opened" in listed
    assert "breaker_refused" in listed
    breakers = venue.agent.run("breakers", "list").stdout
    assert re.search(r"install@supplier +open ", breakers)
    assert re.search(r"install@desk +closed ", breakers)


def refusals(venue: Venue) -> str:
    """What ``edgeagent issuer refusals`` prints for an auditor of the queue."""
    token = venue.folder / "audit.token"
    write_private(token, venue.server.audit_token)
    return venue.agent.run(
        "issuer", "refusals", "--queue", venue.server.url, "--token-file", str(token)
    ).stdout


def receipts(venue: Venue, *orders: SignedCommand) -> list[tuple[object, object]]:
    """Outcome and reason of what has ended."""
    return [
        (event.data["outcome"], event.data.get("reason"))
        for order in orders
        for event in venue.cloud.receipts(order.command.id)
    ]
