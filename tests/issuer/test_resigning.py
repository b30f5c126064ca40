"""What was signed for a lost database is signed anew: the same intent, and nothing else of the command."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.errors import RejectedError
from edgeagent.ids import Epoch, device_id, hub_id, new_epoch, operation
from edgeagent.issuer.client import IssuerClient, RefusedByQueueError
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.resigning import (
    command_in,
    refused_for_their_epoch,
    same_intent,
    was_refused_for_its_epoch,
)
from tests.cli.building import typed
from tests.issuer.building import EPOCH, ManualClock, batch, hello, intent, order, stored
from tests.support.queue_server import KnownHub

LATER: Epoch = new_epoch(1_800_000_100_000, 8)
KEY = PrivateKey.new()


def signed(hub: KnownHub) -> SignedCommand:
    """A command with everything that one can have."""
    meant = Intent(
        hub=hub.id,
        epoch=EPOCH,
        devices=[device_id("tv-1"), device_id("tv-2")],
        action=intent(hub.id).action,
        arguments={"on": True},
        valid_for=timedelta(minutes=7),
        operation=operation("ticket:7"),
        precondition=Precondition(version=3),
    )
    return Issuer([KEY], ManualClock()).sign(meant)


def refusal(of: SignedCommand, reason: Reason) -> dict[str, str]:
    """What a hub tells of a command that it refuses."""
    return {"command": of.command.id, "payload_sha256": of.sha256, "reason": reason}


@pytest.mark.requirement("P2", "T8")
def test_the_same_intent_has_another_id_sequence_time_and_epoch_only() -> None:
    hub = KnownHub(hub_id("venue-7"), "")
    old = signed(hub)
    clock = ManualClock()
    clock.passes(timedelta(hours=1))

    new = Issuer([KEY], clock).sign(same_intent(command_in(old.envelope), LATER)).command

    fresh = {"id", "sequence", "issued_at", "expires_at", "epoch"}
    assert new.model_dump(exclude=fresh) == old.command.model_dump(exclude=fresh)
    assert new.epoch == LATER
    assert new.id != old.command.id
    assert new.sequence > old.command.sequence
    assert new.issued_at == old.command.issued_at + timedelta(hours=1)
    assert new.expires_at - new.issued_at == timedelta(minutes=7)


@pytest.mark.requirement("T8")
def test_what_is_of_the_present_epoch_is_not_signed_anew() -> None:
    with pytest.raises(RejectedError, match="was signed for the present epoch"):
        same_intent(signed(KnownHub(hub_id("venue-7"), "")).command, EPOCH)


@pytest.mark.slow
@pytest.mark.requirement("P2", "T8")
async def test_the_queue_tells_which_commands_were_refused_for_their_epoch_and_what_they_were(
    greeted: HttpsQueue, cloud: IssuerClient, hub: KnownHub
) -> None:
    lost, denied, never_lent = (order(hub.id, key=KEY) for _ in range(3))
    for one in (lost, denied, never_lent):
        await cloud.send(one)
    events = [
        hello(),
        stored(2, EventType.REFUSED, refusal(lost, Reason.WRONG_EPOCH)),
        stored(3, EventType.REFUSED, refusal(denied, Reason.NOT_ALLOWED)),
        stored(4, EventType.REFUSED, {"reason": Reason.WRONG_EPOCH}),
    ]
    await greeted.upload(batch(hub.id, events, epoch=LATER))

    void = [id_ async for id_ in refused_for_their_epoch(cloud, hub.id)]
    assert void == [never_lent.command.id, lost.command.id]
    assert was_refused_for_its_epoch(await cloud.status(hub.id, lost.command.id))
    assert not was_refused_for_its_epoch(await cloud.status(hub.id, denied.command.id))
    assert was_refused_for_its_epoch(await cloud.status(hub.id, never_lent.command.id))
    assert await cloud.envelopes(hub.id, lost.command.id) == [lost.envelope]
    with pytest.raises(RefusedByQueueError, match="no such command"):
        await cloud.envelopes(hub.id, LATER)  # type: ignore[arg-type]  # an id of nothing


@pytest.mark.requirement("P2")
def test_a_file_is_signed_anew_and_printed(tmp_path: Path) -> None:
    old = signed(KnownHub(hub_id("venue-7"), ""))
    save_key(KEY, tmp_path / "desk.pem")
    (tmp_path / "old.json").write_bytes(old.envelope)

    said = typed(
        "issuer", "command", "resign", "--file", str(tmp_path / "old.json"),
        "--key", str(tmp_path / "desk.pem"), "--epoch", LATER, "--valid-for", "1m",
    )  # fmt: skip

    assert (said.status, said.err) == (0, "")
    new = command_in(said.out.strip().encode())
    assert (new.operation, new.epoch, new.devices) == ("ticket:7", LATER, old.command.devices)
    assert new.expires_at - new.issued_at == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(["c1"], "name the --hub", id="no queue"),
        pytest.param(
            ["--all", "--hub", "venue-7", "--queue", "http://127.0.0.1:1"], "name the --hub", id="login"
        ),
        pytest.param(["--file", "/nowhere"], "cannot read /nowhere", id="no file"),
    ],
)
def test_half_of_what_is_needed_is_told(tmp_path: Path, words: list[str], why: str) -> None:
    save_key(KEY, tmp_path / "desk.pem")

    said = typed("issuer", "command", "resign", *words, "--key", str(tmp_path / "desk.pem"))

    assert (said.status, why in said.err) == (1, True)
