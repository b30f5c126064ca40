"""What may go wrong with an appliance, as data.

A plan is a list of faults, in JSON or in TOML (``[[fault]]``):

    [[fault]]
    fault = "drop"               # one of Kind
    appliance = "tasmota-*"      # shell pattern over ids; default all
    way = "said"                 # "heard" (from the broker) or "said" (to it); default heard
    topic = "stat/+/RESULT"      # MQTT filter; default all
    probability = 0.2            # of each message that matches
    nth = 3                      # only the third message that matches
    times = 1                    # strikes at most once
    begins = "2s"                # not before; counted from when the fault was set
    ends = "10s"                 # not after

An update goes wrong in the same way, without ``way`` and ``topic``:

    [[fault]]
    fault = "stall"
    part = "0x00158d*"           # shell pattern over what has a flash of its own: the devices behind a
                                 # bridge by their addresses, all others are "flash"; default all
    percent = 40                 # how much of the image has come; default 0
    nth = 2                      # only the second update; for brown_out the second write of flash, for
                                 # boot_loop the second boot

What the kinds need besides is said at ``Kind``. When a fault strikes is decided by the seed, the
appliance and the messages that match, so that a run can be repeated; see ``injector``.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from firmware_sim.fields import Fields, InputError, Json, parse_file


class Kind(StrEnum):
    """What goes wrong."""

    DROP = "drop"
    """The message is lost: a command is not heard, or something said is not sent."""
    DELAY = "delay"
    """The message is late by ``delay``, or by a drawn time between ``delay`` and ``delay_most``."""
    DUPLICATE = "duplicate"
    """The message comes twice. The firmware does not notice: neither family knows what it had before."""
    REORDER = "reorder"
    """The message is overtaken by the next one of its way, or comes after ``delay`` when none does."""
    GARBLE = "garble"
    """Something said has the head of the next MQTT packet spliced into it, as users of Tasmota report
    with captures (home-assistant/core 84591, 86640): neither JSON nor UTF-8."""
    SILENT = "silent"
    """The way goes quiet while the connection stays, so that no will tells: ``heard`` hears nothing,
    ``said`` acts and says nothing. With ``nth`` or ``probability`` a command (on ``topic``) sets it off, for
    ``lasting`` (default for good); without, it is so from ``begins`` to ``ends`` (on ``topic``)."""
    WRONG_ECHO = "wrong_echo"
    """The command is carried out and another value is told in all that it causes to be said; what is
    said later is true again."""
    REBOOT = "reboot"
    """The appliance restarts at a command (``moment``), or ``at`` a time; the boot takes ``lasting``
    (default the appliance's own)."""
    DISCONNECT = "disconnect"
    """The socket goes at a command or ``at`` a time, the will is published, nothing is forgotten; it
    comes back after ``lasting`` (default the appliance's own)."""
    BROWN_OUT = "brown_out"
    """The power fails in the middle of a write of flash: of a sector, of the boot flag, of the boot counter.
    Half of it is written. The power comes back at once."""
    OWN_CHECK = "own_check"
    """The device's own check refuses the image that it has got, although it is whole."""
    BOOT_LOOP = "boot_loop"
    """A new firmware does not come up at a boot. Without ``times`` or ``nth`` it never does, and the boot
    falls back to the earlier one if there is one."""
    PROGRESS_BACK = "progress_back"
    """The progress that is told falls back to a third at ``percent``, and goes on from there; nothing else
    is wrong. Of families that tell any."""
    EARLY_SUCCESS = "early_success"
    """Success is told when the download begins; the rest happens as it should."""
    TELLS_NEW = "tells_new"
    """All is told as if the update had been made, the new version too; the old firmware runs."""
    TELLS_OLD = "tells_old"
    """The new firmware runs and tells the old version."""
    STALL = "stall"
    """Nothing more comes of the image from ``percent`` on, for ``lasting`` (default for good); the
    connection stays open."""
    WIFI_LOST = "wifi_lost"
    """The Wi-Fi is gone at ``percent``, with the download and the MQTT connection, for ``lasting`` (default
    the appliance's own). Of a device behind a bridge: the radio, and the transfer is over."""
    VANISH = "vanish"
    """The device is gone for good at ``percent``, or ``at`` a time: no power, no answer."""
    DOUBLE_REBOOT = "double_reboot"
    """After an update it reboots once more as soon as it is back."""
    SLOW_REBOOT = "slow_reboot"
    """The boot after an update takes ``lasting`` longer."""


class Way(StrEnum):
    """Which messages."""

    HEARD = "heard"
    """From the broker: commands."""
    SAID = "said"
    """To the broker: answers, state, telemetry."""


class Moment(StrEnum):
    """When, at a command, a reboot or disconnect strikes."""

    BEFORE = "before"
    """The command is not carried out."""
    ACTED = "acted"
    """It is carried out and nothing is said about it: nobody outside can tell this from the one before."""
    ANSWERED = "answered"
    """It is carried out and answered."""


class ImpossibleFaultError(InputError):
    """The fields of a fault do not go together: it could never strike, or not as it reads."""


_HEARD_ONLY: Final = frozenset({Kind.WRONG_ECHO, Kind.REBOOT, Kind.DISCONNECT})
_TIMED: Final = frozenset({Kind.REBOOT, Kind.DISCONNECT, Kind.VANISH})
UPDATES: Final = frozenset(
    {
        Kind.BROWN_OUT,
        Kind.OWN_CHECK,
        Kind.BOOT_LOOP,
        Kind.PROGRESS_BACK,
        Kind.EARLY_SUCCESS,
        Kind.TELLS_NEW,
        Kind.TELLS_OLD,
        Kind.STALL,
        Kind.WIFI_LOST,
        Kind.VANISH,
        Kind.DOUBLE_REBOOT,
        Kind.SLOW_REBOOT,
    }
)
"""Those that strike at an update rather than at a message."""
_PERCENT: Final = frozenset({Kind.STALL, Kind.WIFI_LOST, Kind.VANISH, Kind.PROGRESS_BACK})
_FULL: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One entry of a plan; the fields are those of the module's docstring and of ``Kind``.

    Raises:
        ImpossibleFaultError: the fields do not go together.
    """

    kind: Kind
    appliance: str = "*"
    way: Way = Way.HEARD
    topic: str = "#"
    probability: float = 1.0
    nth: int | None = None
    times: int | None = None
    begins: timedelta = timedelta(0)
    ends: timedelta | None = None
    delay: timedelta = timedelta(0)
    delay_most: timedelta | None = None
    moment: Moment = Moment.BEFORE
    at: timedelta | None = None
    lasting: timedelta | None = None
    part: str = "*"
    percent: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what could never strike, or not as it reads."""
        if self.kind in _HEARD_ONLY and self.way is not Way.HEARD:
            raise ImpossibleFaultError(f"{self.kind}: strikes at what is heard")
        if self.kind is Kind.GARBLE and self.way is not Way.SAID:
            raise ImpossibleFaultError("garble: strikes at what is said; add way = said")
        if self.at is not None and self.kind not in _TIMED:
            raise ImpossibleFaultError(f"{self.kind}: has no time of its own; use begins and ends")
        if self.kind is Kind.DELAY and not self.delay and not self.delay_most:
            raise ImpossibleFaultError("delay: needs a delay")
        if self.delay_most is not None and self.delay_most < self.delay:
            raise ImpossibleFaultError(f"{self.kind}: delay_most is shorter than delay")
        if self.ends is not None and self.ends <= self.begins:
            raise ImpossibleFaultError(f"{self.kind}: ends before it begins")
        self._refuse_mixed()

    def _refuse_mixed(self) -> None:
        """Refuse an update's fault with a message's fields, and the other way round."""
        if self.kind in UPDATES and (self.way is not Way.HEARD or self.topic != "#"):
            raise ImpossibleFaultError(f"{self.kind}: strikes at an update, which has neither way nor topic")
        if self.kind not in UPDATES and self.part != "*":
            raise ImpossibleFaultError(f"{self.kind}: strikes at a message, which has no part")
        if self.kind not in _PERCENT and self.percent:
            raise ImpossibleFaultError(f"{self.kind}: has no percent")
        if self.kind is Kind.SLOW_REBOOT and not self.lasting:
            raise ImpossibleFaultError("slow_reboot: needs a lasting")

    @property
    def by_command(self) -> bool:
        """Whether a silence is set off by a command rather than being there from the beginning."""
        return self.nth is not None or self.probability < 1


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All that goes wrong in a run."""

    faults: tuple[Fault, ...] = ()


def plan_from_file(path: Path) -> FaultPlan:
    """Read a plan from a JSON or TOML file.

    Raises:
        InputError: says what is wrong, and where.
    """
    return plan(parse_file(path), path.name)


def plan(value: Json, where: str = "faults") -> FaultPlan:
    """Read a plan: an object with a list ``fault``, or the list alone.

    Raises:
        InputError: says what is wrong, and where.
    """
    fields = Fields({"fault": value} if isinstance(value, list) else value, where)
    found = tuple(_fault(entry) for entry in fields.items("fault"))
    fields.done()
    return FaultPlan(found)


def fault(value: Json, where: str = "fault") -> Fault:
    """Read one fault.

    Raises:
        InputError: says what is wrong, and where.
    """
    return _fault(Fields(value, where))


def _fault(fields: Fields) -> Fault:
    zero = timedelta(0)
    try:
        found = Fault(
            kind=fields.choice("fault", Kind),
            appliance=fields.text("appliance", "*"),
            way=fields.choice("way", Way, Way.HEARD),
            topic=fields.text("topic", "#"),
            probability=fields.number("probability", 1.0, least=0, most=1),
            nth=fields.whole("nth", least=1) if fields.has("nth") else None,
            times=fields.whole("times", least=1) if fields.has("times") else None,
            begins=fields.duration("begins", zero),
            ends=fields.duration("ends", zero) if fields.has("ends") else None,
            delay=fields.duration("delay", zero),
            delay_most=fields.duration("delay_most", zero) if fields.has("delay_most") else None,
            moment=fields.choice("moment", Moment, Moment.BEFORE),
            at=fields.duration("at", zero) if fields.has("at") else None,
            lasting=fields.duration("lasting", zero) if fields.has("lasting") else None,
            part=fields.text("part", "*"),
            percent=fields.number("percent", 0.0, least=0, most=_FULL),
        )
    except ImpossibleFaultError as why:
        raise InputError(f"{fields.where}: {why}") from why
    fields.done()
    return found
