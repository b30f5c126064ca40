"""One appliance: a firmware on a board, in a case with a plug.

All that it does happens in one task, taken from one queue, in order: messages, timers, the clock of the
telemetry, connections that come and go. A second task keeps it connected.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Final, Self

from firmware_sim.board import CircuitBoard, World
from firmware_sim.faults import Fault, Kind
from firmware_sim.fields import Json
from firmware_sim.firmware import Effect, Heard, PowerLostError, Said, Subscription
from firmware_sim.journal import What
from firmware_sim.link import Connected, Granted, Link, LinkEvent, Login
from firmware_sim.specification import Specification, build
from firmware_sim.wiring import IDLE, Cause, Handling

_SOON: Final = timedelta(seconds=10)
# In one boot; a plan can let the power fail at every write.
_POWER_CUTS: Final = 20


class Appliance:
    """See the module's docstring. ``async with`` plugs it in, waits until it listens, and unplugs it.

    Made on the event loop.

    Args:
        specification: what it is.
        world: where it lives.
    """

    def __init__(self, specification: Specification, world: World) -> None:
        self.id = specification.id
        self._specification = specification
        self._world = world
        self._board = CircuitBoard(self.id, world, self)
        self._firmware = build(specification, self._board, world.timing, world.seed)
        self._todo: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
        self._listening = asyncio.Event()
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._away: timedelta | None = None
        self._group: asyncio.TaskGroup | None = None
        self._why = ""
        self._fresh = True
        self._gone = False
        self.life = 0
        """Which connection this is, counted from 1."""

    async def __aenter__(self) -> Self:
        """Plug in, and wait until it listens."""
        self.start()
        try:
            await self.listening(_SOON)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unplug."""
        await self.stop()

    def start(self) -> None:
        """Plug in."""
        self._board.note(What.STARTED, {"description": self.describe(), "state": self.state()})
        self.set_faults(self._world.plan.faults)
        self._task = asyncio.create_task(self._run(), name=self.id)

    async def listening(self, within: timedelta) -> None:
        """Wait until the broker has granted its subscriptions.

        Raises:
            TimeoutError: it has not in time; the message says what keeps it.
        """
        assert self._task is not None, "it is not plugged in"  # noqa: S101 - a mistake of the caller
        waiting = asyncio.create_task(self._listening.wait())
        try:
            done, _ = await asyncio.wait(
                {waiting, self._task}, timeout=within.total_seconds(), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiting.cancel()
        if self._task in done:
            self._task.result()
        if waiting not in done:
            raise TimeoutError(f"{self.id} does not listen: {self._why or 'no answer from the broker'}")

    async def finished(self) -> None:
        """Wait for ever, or until the appliance breaks.

        Raises:
            ExceptionGroup: our own mistake, or a journal that cannot be written.
        """
        assert self._task is not None, "it is not plugged in"  # noqa: S101 - a mistake of the caller
        await asyncio.wait({self._task})
        self._task.result()

    async def stop(self) -> None:
        """Unplug, and write down how everything stands."""
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self._board.forget()
        self._board.note(What.STATE, {"state": self.state()})
        self._board.note(What.STOPPED, {})

    def press(self, button: int = 1) -> None:
        """Press a button of the appliance.

        Raises:
            InputError: it has no such button.
        """
        if not self._gone:
            self._board.under(Handling(cause=Cause.BUTTON), lambda: self._firmware.press(button))

    def reboot(self, lasting: timedelta | None = None) -> None:
        """Cut the power and give it back at once; the boot takes ``lasting``."""
        self._board.under(Handling(cause=Cause.TEST), lambda: self.power_cycle(lasting, cold=True))

    def disconnect(self, lasting: timedelta | None = None) -> None:
        """Cut the connection, so that the will is published; it comes back after ``lasting``."""
        self._drop(self._world.timing.reconnect if lasting is None else lasting, "disconnected")

    def set_faults(self, faults: Sequence[Fault]) -> int:
        """Let these go wrong from now on, as far as they are meant for this appliance.

        Returns:
            How many are.
        """
        return self._board.set_faults(faults)

    def heal(self) -> None:
        """Let nothing go wrong any more, but for what is timed already."""
        self._board.injector.clear()

    def publish(self, message: Said, acknowledged: Callable[[], None] | None = None) -> bool:
        """Send any message past firmware and faults.

        Args:
            message: what.
            acknowledged: called when its PUBACK comes.

        Returns:
            Whether it was handed to the socket.

        Raises:
            ValueError: no broker would take it.
        """
        return self._link is not None and self._link.say(message, acknowledged)

    def counted(self, number: int) -> Said | None:
        """A telemetry message that carries ``number``; None when it has no meter."""
        return self._firmware.counted(number)

    def describe(self) -> Mapping[str, Json]:
        """What it is and can do."""
        return {"id": self.id, **self._firmware.describe()}

    def state(self) -> Mapping[str, Json]:
        """What is true of it."""
        return {
            "connected": self.connected,
            "boots": self._board.boots,
            "commands": self._board.commands,
            "gone": self._gone,
            "flash": self._firmware.chips(),
            "parts": {piece.name: piece.values() for piece in self._firmware.pieces()},
        }

    @property
    def connected(self) -> bool:
        """Whether its connection stands."""
        return self._link is not None and self._link.connected

    # What the board needs of it: ``board.Wiring``.

    def put(self, work: Callable[[], None]) -> None:
        """Let the appliance's task do something."""
        self._todo.put_nowait(work)

    def transmit(self, message: Said) -> None:
        """Send a message; nothing comes of it without a connection."""
        self.publish(message)

    def ask(self, wanted: Sequence[Subscription]) -> None:
        """Ask the broker for messages."""
        if self._link is not None:
            self._link.subscribe(wanted)

    def hear(self, message: Heard) -> None:
        """Let the firmware take a message."""
        self._firmware.hear(message)

    def come_clean(self) -> None:
        """Let all parts tell the truth again."""
        for piece in self._firmware.pieces():
            piece.come_clean()

    def fall(self, fault: Fault) -> None:
        """Reboot, lose the connection, or be gone."""
        match fault.kind:
            case Kind.REBOOT:
                cut = partial(self.power_cycle, fault.lasting, cold=True)
                self._board.under(Handling(cause=Cause.FAULT), cut)
            case Kind.VANISH:
                self._board.note(What.GONE, {"part": "device", "why": "vanished"})
                self._leave()
            case _:
                self.disconnect(fault.lasting)

    def power_cycle(self, lasting: timedelta | None, *, cold: bool = False) -> None:
        """Boot anew; None takes as long as usual. ``cold`` when the power was gone."""
        if self._gone:
            return
        self._board.carried_out(Effect("reboot", "device", {}, {}, changed=True))
        usual = self._world.timing.boot if lasting is None else lasting
        self._board.power_cut()
        away = self._booted(usual, cold=cold)
        if away is None:
            self._leave()
            return
        self._fresh = True
        self._drop(away, "rebooted")

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Let something run beside its task, and no longer than it."""
        assert self._group is not None, "it is not plugged in"  # noqa: S101 - a mistake of the caller
        return self._group.create_task(work)

    def _booted(self, usual: timedelta, *, cold: bool) -> timedelta | None:
        """Boot, as often as the power fails in the middle of it."""
        for _ in range(_POWER_CUTS):
            try:
                return self._firmware.boot(usual, cold=cold)
            except PowerLostError:
                cold = True
        self._board.note(What.GONE, {"part": "device", "why": "the power fails at each boot"})
        return None

    def _leave(self) -> None:
        """Be gone for good, without a word: the broker publishes the will."""
        self._gone = True
        self._board.forget()
        self._drop(timedelta(0), "gone")

    # Its two tasks.

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._stay_connected())
            group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            (await self._todo.get())()

    async def _stay_connected(self) -> None:
        while not self._gone:
            self.life += 1
            self._link = Link(self._world.broker, self._login(), partial(self._told, self.life))
            self._why = await self._link.live()
            self._link = None
            self._listening.clear()
            self._board.note(What.OFFLINE, {"why": self._why})
            away, self._away = self._away, None
            await asyncio.sleep((self._world.timing.reconnect if away is None else away).total_seconds())

    def _login(self) -> Login:
        account, firmware = self._specification.account, self._firmware
        return Login(
            client_id=firmware.client_id,
            keepalive=firmware.keepalive,
            will=firmware.will,
            username=account.username or None,
            password=account.password or None,
            mqtt5=self._world.mqtt5,
        )

    def _told(self, life: int, event: LinkEvent) -> None:
        self.put(partial(self._happened, life, self._board.boots, event))

    def _happened(self, life: int, boots: int, event: LinkEvent) -> None:
        if life != self.life or boots != self._board.boots:
            return  # it happened to a connection that is no more
        match event:
            case Connected():
                fresh, self._fresh = self._fresh, False
                self._board.note(What.ONLINE, {"fresh": fresh})
                self._board.under(IDLE, lambda: self._firmware.greet(fresh=fresh))
                # A fleet does not report in step.
                phase = Random(f"{self._world.seed}/{self.id}/phase").random()
                self._schedule_report(life, self._world.timing.period * phase)
            case Granted(refused=refused):
                self._board.note(What.LISTENING, {"refused": list(refused)})
                self._listening.set()
            case Heard():
                self._board.receive(event)

    def _schedule_report(self, life: int, after: timedelta) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(after.total_seconds(), self.put, partial(self._report, life))

    def _report(self, life: int) -> None:
        if life == self.life and self.connected:
            self._board.under(IDLE, self._firmware.report)
            self._schedule_report(life, self._world.timing.period)

    def _drop(self, away: timedelta, why: str) -> None:
        self._away = away
        self._listening.clear()
        if self._link is not None:
            self._link.pull_plug(why)
