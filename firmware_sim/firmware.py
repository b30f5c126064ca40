"""What a family's firmware is given by its hardware, and what it gives.

A firmware is plain code without network, time or chance: messages, button presses and timers come in,
what it says and does goes out through its ``Board``. So each family reads as a description of the
real one, and the faults are put around it by ``appliance`` without its knowledge.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from firmware_sim.faults import Fault, Kind
from firmware_sim.fields import InputError, Json
from firmware_sim.journal import What


@dataclass(frozen=True, slots=True)
class Will:
    """The last will, as it stands in CONNECT (MQTT 3.1.1 section 3.1.2.5)."""

    topic: str
    payload: str
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic filter with the quality of service asked for."""

    filter: str
    qos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message as the broker delivered it.

    Attributes:
        topic: as sent.
        payload: as sent; any bytes.
        qos: of the delivery.
        retain: the broker's stored copy. The real firmware of both families does not look at it.
        dup: delivered before. Not looked at either.
        expiry: seconds left (MQTT 5 section 3.3.2.3.3); None on a 3.1.1 connection.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    expiry: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A message that the firmware wants to have sent."""

    topic: str
    payload: bytes
    qos: int
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that was carried out.

    Attributes:
        action: what: ``power``, ``toggle``, ``brightness``, ``color``, ``color_temperature``,
            ``position``, ``stop``, ``arrived``, ``identify``, ``setpoint``, ``system_mode``, ``reboot``.
        part: of which part.
        before: the part's true values.
        after: the part's true values from now on.
        changed: whether the world is another one; a reboot always changes it.
    """

    action: str
    part: str
    before: Mapping[str, Json]
    after: Mapping[str, Json]
    changed: bool


class PowerLostError(Exception):
    """The power failed in the middle of a write of flash.

    It unwinds whatever the firmware was doing; nothing of it goes on.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Something to be fetched over HTTP.

    Attributes:
        url: from where.
        part: for what, as faults and journal name it.
        update: which update of this part it is.
        begin: the first byte that is wanted, by ``Range``; 0 asks for all.
        old: HTTP/1.0, as small libraries speak it.
        agent: the ``User-Agent``.
        patience: how long nothing may come.
    """

    url: str
    part: str
    update: int
    begin: int = 0
    old: bool = False
    agent: str = ""
    patience: timedelta = timedelta(seconds=10)


class Taker(Protocol):
    """Who takes what is fetched."""

    def begun(self, begin: int, length: int | None) -> None:
        """The answer has begun.

        Args:
            begin: which byte comes first, which is 0 when ``Range`` was not honoured.
            length: of the whole, as far as it is told.
        """
        ...

    def piece(self, data: bytes) -> None:
        """Some of it has come."""
        ...

    def ended(self, why: str) -> None:
        """No more comes; ``why`` is empty when it was all."""
        ...


class Timer(Protocol):
    """A timer that was started."""

    def cancel(self) -> None:
        """Forget it."""
        ...


class Board(Protocol):
    """The hardware under a firmware."""

    @property
    def honest(self) -> bool:
        """False while a fault wants the firmware to tell other values than it took."""
        ...

    def say(self, message: Said) -> None:
        """Send a message, if the faults and the connection let it."""
        ...

    def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Ask the broker for messages."""
        ...

    def carried_out(self, effect: Effect) -> None:
        """Note that something was carried out."""
        ...

    def restart(self, after: timedelta) -> None:
        """Boot anew: the connection drops without a word, and what is not in flash is forgotten."""
        ...

    def start_timer(self, after: timedelta, ring: Callable[[], None]) -> Timer:
        """Call ``ring`` later, unless the appliance boots before."""
        ...

    def fetch(self, wanted: Wanted, taker: Taker) -> Timer:
        """Fetch something with a real GET, unless the appliance boots before; it can be cancelled."""
        ...

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Let something run beside everything else, until the next boot; it raises nothing."""
        ...

    def writes_flash(self, part: str) -> None:
        """A write of flash is under way, half done.

        Raises:
            PowerLostError: it stays so.
        """
        ...

    def befalls(
        self, kind: Kind, part: str, *, percent: float = 100, update: int | None = None
    ) -> Fault | None:
        """Whether this goes wrong now, in an update; it is written down if so.

        Args:
            kind: what.
            part: of which part.
            percent: how much of the image has come.
            update: which update of the part it is, each of which is looked at once; None for each call.
        """
        ...

    @property
    def maker(self) -> bytes:
        """The public key of its maker, burnt in at birth; empty for none."""
        ...

    @property
    def address(self) -> str:
        """In its network."""
        ...

    def note(self, what: What, details: Mapping[str, Json]) -> None:
        """Write a line into the journal."""
        ...

    def uptime(self) -> timedelta:
        """Time since the last boot."""
        ...

    def wall(self) -> datetime:
        """The time of day, in UTC."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things take. The defaults make a venue in a hurry; the real figures stand beside them.

    Attributes:
        period: between two telemetry messages. Tasmota 300 s (TelePeriod), Shelly 60 s.
        settle: Tasmota's pause between being connected and the first telemetry and discovery. 5 to 10 s.
        restart: between the answer to a restart and the restart. Shelly 1 s, Tasmota 2 s.
        boot: away while booting. 4 to 15 s.
        reconnect: away after a lost connection. Tasmota 10 s and growing, Shelly 1 to 60 s.
        travel: a cover's way from closed to open. 20 to 40 s.
        transfer: what a device takes at least over a whole image. Tasmota and Shelly 10 to 90 s, a Zigbee
            device 10 min to 2 h.
        retry: between two tries of a download. Tasmota some 3 s.

    Raises:
        InputError: no time at all between two telemetry messages, or for a cover's way.
    """

    period: timedelta = timedelta(seconds=1)
    settle: timedelta = timedelta(milliseconds=100)
    restart: timedelta = timedelta(milliseconds=100)
    boot: timedelta = timedelta(milliseconds=300)
    reconnect: timedelta = timedelta(milliseconds=300)
    travel: timedelta = timedelta(seconds=1)
    transfer: timedelta = timedelta(milliseconds=500)
    retry: timedelta = timedelta(milliseconds=200)

    def __post_init__(self) -> None:
        """Refuse what would never let go of the processor."""
        if self.period <= timedelta(0) or self.travel <= timedelta(0):
            raise InputError("the period and the travel of covers take some time")


class Firmware(Protocol):
    """One appliance's program. All calls come from one task, one at a time."""

    @property
    def native_id(self) -> str:
        """The id that the appliance has by birth."""
        ...

    @property
    def client_id(self) -> str:
        """Its MQTT client id."""
        ...

    @property
    def keepalive(self) -> timedelta:
        """What it puts into CONNECT."""
        ...

    @property
    def will(self) -> Will:
        """What it puts into CONNECT."""
        ...

    def boot(self, usual: timedelta, *, cold: bool) -> timedelta | None:
        """Begin anew with what is in flash.

        Args:
            usual: how long one boot takes.
            cold: whether the power was gone, and with it what lives as long as the power does.

        Returns:
            How long this one takes; None when nothing comes up any more.

        Raises:
            PowerLostError: at a write of the boot's own.
        """
        ...

    def chips(self) -> Mapping[str, Json]:
        """The true state of all flash, by part: what runs, what lies in the slots, how often it booted."""
        ...

    def greet(self, *, fresh: bool) -> None:
        """Say what is said at each connect; more when it is the first one since boot."""
        ...

    def hear(self, message: Heard) -> None:
        """Take a message; whatever it holds, no exception comes of it."""
        ...

    def report(self) -> None:
        """Say the telemetry of one period."""
        ...

    def press(self, button: int) -> None:
        """Somebody pressed a button of the appliance; buttons count from 1.

        Raises:
            InputError: it has no such button.
        """
        ...

    def counted(self, number: int) -> Said | None:
        """A telemetry message whose energy reading is exactly ``number`` kWh, at QoS 1.

        Returns:
            None when the appliance has no meter.
        """
        ...

    def describe(self) -> Mapping[str, Json]:
        """What a visitor is told: family, model, topics, what it can do."""
        ...

    def pieces(self) -> Sequence["Piece"]:
        """All parts, for the true state."""
        ...


class Piece(Protocol):
    """A part of an appliance, as seen by whoever does not care what it is."""

    @property
    def name(self) -> str:
        """Such as ``switch:0`` or ``POWER2``."""
        ...

    def values(self) -> Mapping[str, Json]:
        """What is true of it, in the journal's words."""
        ...

    def come_clean(self) -> None:
        """Tell the truth again."""
        ...
