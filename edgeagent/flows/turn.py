"""What one commit of readings holds.

Messages are turned, one after the other, into changes of shadows and the events that tell them: at most
one event of each stream for a message, one more for each happening in it, and a ``gap`` for changes that
were overwritten before they were told. Nothing here touches the disk or the broker.
"""

from dataclasses import field
from typing import Final

from edgeagent.contracts.event import EventTime, EventType, Stream, data_text
from edgeagent.contracts.mqtt import Inbound, Session
from edgeagent.core.profile.decode import Decoded
from edgeagent.core.redelivery import Mark
from edgeagent.core.shadow import Heard, TelemetryReading, Telling, Value
from edgeagent.flows.devices import Device
from edgeagent.ids import DeviceId, ReadingName
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

# Looking a member up costs as much as the rest of what is done with a reading; these are for every one,
# or for every message.
_NOW: Final = Telling.NOW
_LATER: Final = Telling.LATER
_STREAM: Final = Stream.TELEMETRY
_TYPE: Final = EventType.TELEMETRY


@dataclass(slots=True)
class Turn:
    """What has come since the last commit.

    Attributes:
        messages: to be acknowledged, in receive order.
        marks: the delivery marks of each session.
        offers: what is handed to whoever waits, after the commit.
        events: to be stored.
        changed: state readings to be stored, by device.
        came_online: devices that were away and are there again.
        withholding: devices of which a value waits for its minimum interval.
        size: bytes of payload.
        urgent: whether somebody waits for the commit.
    """

    messages: list[Inbound] = field(default_factory=list)
    marks: dict[Session, list[Mark]] = field(default_factory=lambda: {session: [] for session in Session})
    offers: list[tuple[DeviceId, Inbound, Decoded]] = field(default_factory=list)
    events: list[NewEvent] = field(default_factory=list)
    changed: dict[DeviceId, set[ReadingName]] = field(default_factory=dict)
    came_online: set[DeviceId] = field(default_factory=set)
    withholding: set[DeviceId] = field(default_factory=set)
    size: int = 0
    urgent: bool = False

    def tells(self, stream: Stream) -> bool:
        """Whether there is anything of a stream among the events."""
        return any(event.stream is stream for event in self.events)

    def take(self, device: Device, message: Inbound, decoded: Decoded, time: EventTime) -> None:
        """Let a message change the device's shadow, and note what of it is told."""
        if not message.retain:
            device.heard = message.heard
            device.unsafe += message.qos == 0
        told: set[ReadingName] = set()
        telemetry: dict[ReadingName, Value] = {}
        self._hear_availability(device, message, decoded, time, told)
        # What is said of its presence is not among the readings.
        hear_telemetry, spec_of = device.shadow.hear_telemetry, device.compiled.spec
        for name, value in decoded.readings:
            spec = spec_of(name)
            if spec.state:
                if not _is_outdated(device, name, message):
                    heard = Heard(time.at, message.heard, message.retain)
                    self._note(device, name, device.shadow.hear_state(name, value, spec, heard), told)
                continue
            if spec.event:
                self._happened(device, name, value, (time, message.heard))
                continue
            telling = hear_telemetry(name, value, spec, message.heard)
            if telling is _NOW:
                telemetry[name] = value
            elif telling is _LATER and message.retain:
                # It comes at most once a subscription; later nobody would know that it is old.
                telemetry[name] = device.shadow.release_telemetry(name, message.heard)
            elif telling is _LATER:
                self.withholding.add(device.id)
        self._tell(device, told, telemetry, (time, message.heard), retained=message.retain)

    def _happened(self, device: Device, name: ReadingName, value: Value, when: tuple[EventTime, int]) -> None:
        """Tell a happening: an equal one is another, also within one message."""
        device.shadow.telemetry[name] = TelemetryReading(value, when[1])
        self._tell(device, set(), {name: value}, when)

    def miss(self, device: Device, time: EventTime, now: int) -> None:
        """Take a device for gone that was silent for too long.

        Args:
            device: whose silence it is.
            time: the present.
            now: the present, in nanoseconds of boot time.
        """
        told: set[ReadingName] = set()
        self._note_presence(device, Heard(time.at, now, retained=False), told, present=False)
        self._tell(device, told, {}, (time, now))

    def _hear_availability(
        self, device: Device, message: Inbound, decoded: Decoded, time: EventTime, told: set[ReadingName]
    ) -> None:
        """Follow the device coming and going.

        Live traffic proves that it is there, whatever an older last will says that arrives late.
        """
        present = decoded.availability
        if present is None and decoded.alive and not message.retain and device.online is not True:
            present = True
        if present is not None:
            self._note_presence(device, Heard(time.at, message.heard, retained=False), told, present=present)

    def _note_presence(self, device: Device, heard: Heard, told: set[ReadingName], *, present: bool) -> None:
        if present is not device.online:
            # Whatever was live before is not any more, in either direction.
            device.shadow.lose_touch()
            if present:
                self.came_online.add(device.id)
        name = device.compiled.availability
        value = "online" if present else "offline"
        telling = device.shadow.hear_state(name, value, device.compiled.spec(name), heard)
        self._note(device, name, telling, told)

    def _note(self, device: Device, name: ReadingName, telling: Telling, told: set[ReadingName]) -> None:
        """Note a state reading that has to be stored, and perhaps told."""
        if telling is Telling.NOTHING:
            return
        self.changed.setdefault(device.id, set()).add(name)
        if telling is Telling.NOW:
            told.add(name)
        else:
            self.withholding.add(device.id)

    def release(self, device: Device, time: EventTime, now: int) -> None:
        """Tell the withheld values of a device whose minimum interval is over.

        Args:
            device: whose.
            time: the present.
            now: the present, in nanoseconds of boot time.
        """
        state: set[ReadingName] = set()
        telemetry: dict[ReadingName, Value] = {}
        for name, moment in device.shadow.withheld(device.compiled.spec).items():
            if moment > now:
                continue
            if device.compiled.spec(name).state:
                self._note(device, name, Telling.NOW, state)
            else:
                telemetry[name] = device.shadow.release_telemetry(name, now)
        self._tell(device, state, telemetry, (time, now))

    def _tell(
        self,
        device: Device,
        state: set[ReadingName],
        telemetry: dict[ReadingName, Value],
        when: tuple[EventTime, int],
        *,
        retained: bool = False,
    ) -> None:
        """Make the events of one message: at most one of each stream, and a gap for what was never told.

        What the broker has stored was read at some earlier time: its event says so.
        """
        events, (time, boot) = self.events, when
        if device.id in self.changed:
            device.shadow.seal()
        if state:
            events.append(
                NewEvent(Stream.STATE, EventType.STATE, device.id, time, _state_data(device, state))
            )
            coalesced = device.shadow.told(state, boot)
            if coalesced:
                data = data_text({"cause": "coalesced", "readings": sorted(state), "changes": coalesced})
                events.append(NewEvent(Stream.RECORD, EventType.GAP, device.id, time, data))
        if telemetry:
            data = data_text(
                {"readings": telemetry, "retained": True} if retained else {"readings": telemetry}
            )
            events.append(NewEvent(_STREAM, _TYPE, device.id, time, data))


def _is_outdated(device: Device, name: ReadingName, message: Inbound) -> bool:
    """Whether a retained value meets one that was heard live, and so is older."""
    held = device.shadow.state.get(name)
    return message.retain and held is not None and held.live_at is not None


def _state_data(device: Device, names: set[ReadingName]) -> bytes:
    shadow = device.shadow
    return data_text(
        {
            "version": shadow.version,
            "etag": shadow.etag,
            "readings": {
                name: {"value": shadow.state[name].value, "version": shadow.state[name].version}
                | ({"retained": True} if shadow.state[name].retained else {})
                for name in sorted(names)
            },
        }
    )
