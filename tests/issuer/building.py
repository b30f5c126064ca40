"""Builders with boring defaults: a test names only what matters to it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import BootId, ClockSource, ProvenClock, SystemTime, Wall
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import EventTime, EventType, StoredEvent, Stream, data_text, render
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import AuditMark, Outcome, Receipt
from edgeagent.ids import DeviceId, Digest, Epoch, HubId, device_id, new_epoch
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from edgeagent.issuer.keys import PrivateKey
from edgeagent.ports.cloud import Batch

EPOCH: Final = new_epoch(1_800_000_000_000, 7)
TV: Final = device_id("tv-1")
NOON: Final = datetime(2026, 12, 1, 12, tzinfo=UTC)


class ManualClock:
    """A clock that goes only when a test says so, and is sure of itself."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now
        self._boot = timedelta(hours=1)

    @property
    def boot_id(self) -> BootId:
        """Always the same boot."""
        return BootId("boot-1")

    def boot(self) -> timedelta:
        """Time since boot."""
        return self._boot

    def wall(self) -> Wall:
        """The time of day."""
        return Wall(best=self._now, earliest=self._now, latest=self._now, source=ClockSource.STATEMENT)

    def passes(self, length: timedelta) -> None:
        """Let time pass."""
        self._boot += length
        self._now += length


def real_clock() -> ProvenClock:
    """The machine's own clock."""
    return ProvenClock(SystemTime())


def stored(
    number: int, kind: EventType = EventType.ALERT, data: Mapping[str, JsonValue] | None = None
) -> StoredEvent:
    """An event as an outbox holds it; of the TV."""
    return StoredEvent(
        number=number,
        type=kind,
        device=None if kind is EventType.HUB_HELLO else TV,
        time=EventTime(at=1_796_126_400_000_000 + number % 1000, error=4, boot=60_000),
        incarnation=1,
        data=data_text({"reason": "flapping"} if data is None else data),
    )


def batch(
    hub: HubId, events: Iterable[StoredEvent], *, stream: Stream = Stream.RECORD, epoch: Epoch = EPOCH
) -> Batch:
    """An upload of these events."""
    return Batch(epoch, stream, [(event.number, render(hub, epoch, stream, event)) for event in events])


def records(hub: HubId, *numbers: int, epoch: Epoch = EPOCH) -> Batch:
    """An upload of records with these numbers."""
    return batch(hub, [stored(number) for number in numbers], epoch=epoch)


def hello(number: int = 1) -> StoredEvent:
    """The agent has started."""
    return stored(number, EventType.HUB_HELLO, {"version": "0.1.0", "boot": "b1", "key": "7a" * 32})


def state(number: int, version: int, **values: JsonValue) -> StoredEvent:
    """State readings of the TV have changed."""
    readings: dict[str, JsonValue] = {
        name: {"value": value, "version": version} for name, value in values.items()
    }
    return stored(
        number, EventType.STATE, {"version": version, "etag": f"{version:016x}", "readings": readings}
    )


def intent(
    hub: HubId,
    *,
    epoch: Epoch = EPOCH,
    device: DeviceId = TV,
    action: ActionName = ActionName.POWER,
    arguments: Arguments | None = None,
    valid_for: timedelta = timedelta(minutes=5),
) -> Intent:
    """Switch the TV on."""
    return Intent(
        hub=hub,
        epoch=epoch,
        devices=[device],
        action=action,
        arguments={"on": True} if arguments is None else arguments,
        valid_for=valid_for,
    )


def order(hub: HubId, *, key: PrivateKey | None = None, epoch: Epoch = EPOCH) -> SignedCommand:
    """A signed command to switch the TV on."""
    return Issuer([key or PrivateKey.new()], real_clock()).sign(intent(hub, epoch=epoch))


def receipt(
    of: SignedCommand,
    *,
    outcome: Outcome = Outcome.SUCCEEDED,
    run: int = 1,
    device: DeviceId | None = None,
) -> Receipt:
    """How a command ended; on its first device where none is named."""
    return Receipt(
        hub=of.command.hub,
        epoch=of.command.epoch,
        command=of.command.id,
        payload_sha256=of.sha256,
        issuer=of.signers[0],
        device=device or of.command.devices[0],
        action=of.command.action,
        run=run,
        outcome=outcome,
        reason=Reason.ALREADY_SO if outcome is Outcome.SUCCEEDED else None,
        attempts=1,
        fence=3,
        finished_at=NOON,
        clock=ClockSource.KERNEL,
        audit=AuditMark(number=9, hash=Digest("9f" * 32)),
    )


def receipt_event(
    number: int, of: SignedCommand, *, run: int = 1, device: DeviceId | None = None
) -> StoredEvent:
    """The event that tells a receipt."""
    event = stored(number, EventType.RECEIPT)
    return StoredEvent(
        number=number,
        type=event.type,
        device=device or of.command.devices[0],
        time=event.time,
        incarnation=1,
        data=encode(receipt(of, run=run, device=device)),
    )


def key_hex(key: PrivateKey) -> str:
    """A public key as a policy lists it."""
    return key.public.hex()


def key_name(key: PrivateKey) -> str:
    """The id of a key."""
    return id_of_key(key.public)
