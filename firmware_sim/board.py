"""The board between a firmware and the world: timers, what is written down, and the faults at both doors.

What the broker sends passes ``receive``: it is written down and counted, then lost, late, doubled, overtaken
or acted upon. What the firmware says passes ``say``, with the same fates. The firmware knows of none of it.

What is done for a command is done under a ``Handling``, which timers inherit: so an effect names the command
that caused it even when the motor arrives much later, and a liar lies to the end.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from firmware_sim.faults import Fault, FaultPlan, Kind, Moment, Way
from firmware_sim.fetching import Fetching
from firmware_sim.fields import Json
from firmware_sim.firmware import (
    Effect,
    Heard,
    PowerLostError,
    Said,
    Subscription,
    Taker,
    Timing,
    Wanted,
)
from firmware_sim.injector import FaultInjector, Outcome, spliced
from firmware_sim.journal import Journal, What, as_json
from firmware_sim.link import Broker
from firmware_sim.wiring import IDLE, Alarm, Cause, Handling, Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the appliances of a run share.

    Attributes:
        broker: where they connect to.
        journal: where they write.
        seed: what chance follows.
        timing: how long things take.
        plan: what goes wrong.
        mqtt5: whether they speak MQTT 5, which none does by birth.
        maker: the public key of the maker of those that take signed images only; empty for nobody's.
        address: of all of them, in their network.
    """

    broker: Broker
    journal: Journal
    seed: str = "0"
    timing: Timing = field(default_factory=Timing)
    plan: FaultPlan = field(default_factory=FaultPlan)
    mqtt5: bool = False
    maker: bytes = b""
    address: str = "127.0.0.1"


class CircuitBoard:
    """See the module's docstring. Made on the event loop, used in the appliance's task.

    Args:
        appliance: its id.
        world: where it lives.
        wiring: the appliance around it.
    """

    def __init__(self, appliance: str, world: World, wiring: Wiring) -> None:
        self._id = appliance
        self._world = world
        self._wiring = wiring
        self._loop = asyncio.get_running_loop()
        self._made = self._booted = self._loop.time()
        self._handling = IDLE
        self._alarms: set[Alarm] = set()
        self._fetches: set[Fetching] = set()
        self._beside: set[asyncio.Task[None]] = set()
        self._restart: Alarm | None = None
        self._overtaken: dict[Way, list[Callable[[], None]]] = {Way.HEARD: [], Way.SAID: []}
        self.injector = FaultInjector(appliance, world.seed, self.age)
        self.boots = 0
        self.commands = 0

    # What the firmware is given: ``firmware.Board``.

    @property
    def honest(self) -> bool:
        """False under the fault ``wrong_echo``."""
        return self._handling.honest

    def say(self, message: Said) -> None:
        """Send a message, if the faults and the connection let it."""
        if self._handling.mute:
            return
        outcome = self.injector.said(message.topic)
        for kind in outcome.struck:
            self.note(What.FAULT, {"fault": kind.value, "way": Way.SAID.value, "topic": message.topic})
        if outcome.lost:
            return
        if outcome.spliced is not None:
            payload = spliced(message.payload, outcome.spliced)
            message = Said(message.topic, payload, message.qos, message.retain)
        self._let_through(Way.SAID, outcome, lambda: self._wiring.transmit(message))

    def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Ask the broker for messages."""
        self._wiring.ask(wanted)

    def carried_out(self, effect: Effect) -> None:
        """Write down that something was carried out."""
        details = {
            "part": effect.part,
            "before": effect.before,
            "after": effect.after,
            "cause": self._handling.cause.value,
            "command": self._handling.command,
        }
        self._world.journal.note_effect(self._id, effect.action, details, changed=effect.changed)

    def restart(self, after: timedelta) -> None:
        """Boot anew after a while; who asks twice is not rebooted twice."""
        if self._restart is not None:
            self._restart.cancel()
        self._restart = self.start_timer(after, lambda: self._wiring.power_cycle(None))

    def start_timer(self, after: timedelta, ring: Callable[[], None]) -> Alarm:
        """Call ``ring`` later, under the same handling, unless it boots before."""
        handling = self._handling
        alarm = Alarm(lambda: self.under(handling, ring))
        self._alarms.add(alarm)
        self._later(after, partial(self._rung, alarm), alarm)
        return alarm

    def fetch(self, wanted: Wanted, taker: Taker) -> Fetching:
        """Fetch something with a real GET, under the same handling, unless it boots before."""
        fetching = Fetching(self, wanted, taker, self._world.timing.transfer)
        self._fetches.add(fetching)
        fetching.task = self._wiring.spawn(fetching.run())
        fetching.task.add_done_callback(lambda _: self._fetches.discard(fetching))
        return fetching

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Let something run beside the appliance's task, until the next boot."""
        task = self._wiring.spawn(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def writes_flash(self, part: str) -> None:
        """Fail under the fault ``brown_out``.

        Raises:
            PowerLostError: it has failed.
        """
        if self.befalls(Kind.BROWN_OUT, part):
            raise PowerLostError

    def befalls(
        self, kind: Kind, part: str, *, percent: float = 100, update: int | None = None
    ) -> Fault | None:
        """Ask the faults, and write down the one that strikes."""
        fault = self.injector.befalls(kind, part, percent, update)
        if fault is not None:
            self.note(What.FAULT, {"fault": kind.value, "way": None, "topic": None, "part": part})
        return fault

    @property
    def maker(self) -> bytes:
        """The key that the world's appliances were born with."""
        return self._world.maker

    @property
    def address(self) -> str:
        """Where it stands in its network."""
        return self._world.address

    def uptime(self) -> timedelta:
        """Time since the last boot."""
        return timedelta(seconds=self._loop.time() - self._booted)

    def wall(self) -> datetime:
        """The time of day."""
        return datetime.now(UTC)

    # What the appliance does with it.

    def age(self) -> timedelta:
        """Time since it was made."""
        return timedelta(seconds=self._loop.time() - self._made)

    def note(self, what: What, details: Mapping[str, Json]) -> None:
        """Write a line into the journal."""
        self._world.journal.note(self._id, what, details)

    def under(self, handling: Handling, work: Callable[[], None]) -> None:
        """Do something for a reason."""
        before, self._handling = self._handling, handling
        try:
            work()
        except PowerLostError:
            self._handling = Handling(cause=Cause.FAULT)
            self._wiring.power_cycle(None, cold=True)
        finally:
            self._handling = before
            self._wiring.come_clean()

    def handling(self) -> Handling:
        """What is being done."""
        return self._handling

    async def done(self, handling: Handling, work: Callable[[], None]) -> None:
        """Let the appliance's task do something, and wait until it has."""
        finished = asyncio.Event()

        def do() -> None:
            try:
                self.under(handling, work)
            finally:
                finished.set()

        self._wiring.put(do)
        await finished.wait()

    def falls(self, fault: Fault) -> None:
        """Let the appliance lose its connection, or be gone."""
        self._wiring.fall(fault)

    def receive(self, message: Heard) -> None:
        """Take what the broker sent."""
        self.commands += 1
        outcome = self.injector.heard(message.topic)
        expiry = {} if message.expiry is None else {"expiry": message.expiry}
        self.note(
            What.HEARD,
            {
                "command": self.commands,
                "topic": message.topic,
                **as_json(message.payload),
                "qos": message.qos,
                "retain": message.retain,
                "dup": message.dup,
                **expiry,
                "faults": [kind.value for kind in outcome.struck],
            },
        )
        if not outcome.lost:
            act = partial(self._act, self.boots, self.commands, message, outcome)
            self._let_through(Way.HEARD, outcome, act)

    def set_faults(self, faults: Sequence[Fault]) -> int:
        """Let these go wrong from now on, as far as they are meant for this appliance.

        Returns:
            How many are.
        """
        meant = self.injector.add(faults)
        for fault in meant:
            if fault.at is not None:
                self._later(fault.at, partial(self._fall_in_time, fault))
        return len(meant)

    def power_cut(self) -> None:
        """Forget what is not in flash: timers, and what waited. The next boot begins."""
        self.forget()
        self.boots += 1
        self._booted = self._loop.time()

    def forget(self) -> None:
        """Let nothing happen any more that was to come."""
        for alarm in self._alarms:
            alarm.cancel()
        self._alarms.clear()
        for fetching in self._fetches:
            fetching.cancel()
        for task in self._beside:
            task.cancel()
        self._restart = None
        for waiting in self._overtaken.values():
            waiting.clear()

    def _act(self, boots: int, command: int, message: Heard, outcome: Outcome) -> None:
        if boots != self.boots:
            return  # late, or doubled, and a boot came between
        fall = outcome.fall
        if fall is None or fall.moment is not Moment.BEFORE:
            mute = fall is not None and fall.moment is Moment.ACTED
            handling = Handling(cause=Cause.COMMAND, command=command, honest=outcome.honest, mute=mute)
            self.under(handling, lambda: self._wiring.hear(message))
        if fall is not None:
            self._wiring.fall(fall)

    def _fall_in_time(self, fault: Fault) -> None:
        self.note(What.FAULT, {"fault": fault.kind.value, "way": None, "topic": None})
        self._wiring.fall(fault)

    def _let_through(self, way: Way, outcome: Outcome, go: Callable[[], None]) -> None:
        def through() -> None:
            for _ in range(outcome.copies):
                go()

        if outcome.overtaken is not None:
            self._overtaken[way].append(through)
            self._later(outcome.overtaken, partial(self._catch_up, way, through))
        elif outcome.late:
            self._later(outcome.late, through)
        else:
            through()
            waiting, self._overtaken[way] = self._overtaken[way], []
            for one in waiting:
                one()

    def _catch_up(self, way: Way, through: Callable[[], None]) -> None:
        """Nobody came to overtake it."""
        if through in self._overtaken[way]:
            self._overtaken[way].remove(through)
            through()

    def _rung(self, alarm: Alarm) -> None:
        self._alarms.discard(alarm)
        if not alarm.forgotten:
            alarm.ring()

    def _later(self, after: timedelta, work: Callable[[], None], alarm: Alarm | None = None) -> None:
        handle = self._loop.call_later(after.total_seconds(), self._wiring.put, work)
        if alarm is not None:
            alarm.handle = handle
