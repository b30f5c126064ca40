"""What the three witnesses saw, as plain values.

    journal     the appliances' own lines: effects, and what the broker acknowledged to them
    heard       numbered readings that a listener at the broker heard
    events      what the cloud holds, by stream, as it gives it out over HTTP
    versions    how new the state is that the cloud knows of each appliance

Nothing in here comes from the agent. A numbered reading is one of a burst: its energy, in kWh, is its number
(``firmware_sim.burst``); the numbers begin far above what a meter of the venue will ever show.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from firmware_sim.fields import Fields, Json
from firmware_sim.journal import Line, What

FIRST_NUMBER: Final = 1_000_000
"""The first number of the first burst."""
_ENERGY: Final = "energy"


class Stream(StrEnum):
    """The streams of a hub (``docs/openapi.yaml``)."""

    RECORD = "record"
    STATE = "state"
    TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A CloudEvent, as far as a verdict needs it.

    Attributes:
        id: hub/epoch/stream/number.
        type: what happened, without ``edgeagent.``.
        device: whom it is about; empty for the hub itself.
        data: the rest.
    """

    id: str
    type: str
    device: str
    data: Mapping[str, Json]

    @property
    def number(self) -> int:
        """Its place in its stream."""
        return int(self.id.rpartition("/")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """How a command ended, by the cloud's record."""

    command: str
    device: str
    outcome: str
    reason: str
    level: str

    def words(self) -> str:
        """It in a few words."""
        more = " ".join(word for word in (self.level, self.reason.replace("_", " ")) if word)
        return f"{self.outcome} ({more})" if more else self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something that an appliance did because a message asked for it.

    Attributes:
        at: when.
        appliance: who.
        action: what.
        part: of which part.
        changed: whether that changed anything.
    """

    at: datetime
    appliance: str
    action: str
    part: str
    changed: bool


@dataclass(slots=True)
class Evidence:
    """All that was seen so far.

    Attributes:
        journal: the appliances' lines.
        heard: how often the listener heard each numbered reading.
        events: what the cloud holds, by stream.
        stored: how often the cloud holds each numbered reading.
        versions: the version of each appliance's state, by the cloud; 0 while it knows none.
    """

    journal: Sequence[Line] = ()
    heard: Counter[int] = field(default_factory=Counter)
    events: dict[Stream, list[Event]] = field(default_factory=lambda: {stream: [] for stream in Stream})
    stored: Counter[int] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)

    def take(self, stream: Stream, events: Sequence[Event]) -> None:
        """Add what the cloud holds besides."""
        self.events[stream].extend(events)
        if stream is Stream.TELEMETRY:
            for event in events:
                self.stored.update(_numbers(event))

    def receipts(self, command: str | None = None) -> list[Receipt]:
        """The receipts at the cloud, of one command or of all."""
        return [
            receipt
            for event in self.events[Stream.RECORD]
            if event.type == "command.receipt"
            for receipt in [_receipt(event)]
            if command is None or receipt.command == command
        ]

    def read_afresh(self, command: str) -> int:
        """The version at which the hub found an appliance after a stale command; 0 while it has not told."""
        for event in self.events[Stream.RECORD]:
            if event.type == "device.revalidated" and event.data.get("command") == command:
                return Fields(event.data, event.id).whole("version")
        return 0

    def alerts(self, reason: str) -> list[Mapping[str, Json]]:
        """What the hub has told the cloud that a person should look at, for a reason."""
        return [
            event.data
            for event in self.events[Stream.RECORD]
            if event.type == "alert" and event.data.get("reason") == reason
        ]

    def effects(self, appliance: str | None = None, action: str | None = None) -> list[Effect]:
        """What appliances did on command: all of them or one, any action or one."""
        return [
            effect
            for effect in _effects(self.journal)
            if appliance in {None, effect.appliance} and action in {None, effect.action}
        ]

    def acknowledged(self, burst: range) -> set[int]:
        """The readings of a burst for which the broker gave the appliances its PUBACK."""
        told = (number for line in self.journal if line.what is What.ACKNOWLEDGED for number in _ranges(line))
        return {number for number in told if number in burst}


def _effects(journal: Sequence[Line]) -> Iterator[Effect]:
    for line in journal:
        if line.what is not What.EFFECT:
            continue
        fields = Fields(line.details, f"line {line.number}")
        if fields.text("cause") == "command":
            yield Effect(
                at=line.at,
                appliance=line.appliance,
                action=fields.text("action"),
                part=fields.text("part"),
                changed=fields.flag("changed", default=False),
            )


def _ranges(line: Line) -> Iterator[int]:
    told = line.details["ranges"]
    assert isinstance(told, Sequence)  # noqa: S101 - the journal's own form
    for pair in told:
        assert isinstance(pair, Sequence)  # noqa: S101 - the journal's own form
        first, last = (int(str(number)) for number in pair)
        yield from range(first, last + 1)


def _numbers(event: Event) -> Iterator[int]:
    """The numbers that a telemetry event carries; a reading of one of several channels ends in its number."""
    readings = event.data.get("readings")
    if not isinstance(readings, Mapping):
        return
    for name, value in readings.items():
        if name.partition(".")[0] == _ENERGY and isinstance(value, int | float) and value >= FIRST_NUMBER:
            yield round(value)


def _receipt(event: Event) -> Receipt:
    fields = Fields(event.data, event.id)
    return Receipt(
        command=fields.text("command"),
        device=event.device,
        outcome=fields.text("outcome"),
        reason=_word(event.data.get("reason")),
        level=_word(event.data.get("level")),
    )


def _word(value: Json) -> str:
    return value if isinstance(value, str) else ""
