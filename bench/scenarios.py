"""What is measured of a system, each in surroundings of its own: the figures of one run."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from bench.native import Sent
from bench.processes import Use
from bench.rig import Rig
from bench.systems import BUSY, DEVICES, EAGER, SHIPPED, Lingers

PAYLOAD: Final = 200
"""Bytes of a message's payload, in ``native/load.c``."""
_SETTLED: Final = 2.0
_STARTED: Final = 5.0
_IDLE: Final = 10.0
_WINDOW: Final = 20

Figures = dict[str, float]
"""Results of one run by name."""
Rigged = Callable[[Lingers, int], AbstractContextManager[Rig]]
"""Makes surroundings, with lingers and the broker's window."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is sent.

    Attributes:
        messages: at full speed.
        seconds: at a steady rate.
        rate: messages a second of it.
    """

    messages: int = 20_000
    seconds: float = 8.0
    rate: float = 500.0


def full_speed(rigged: Rigged, size: Size) -> Figures:
    """As many messages as the broker takes, at once."""
    with rigged(BUSY, 0) as rig:
        time.sleep(_SETTLED)
        resident = rig.watch.resident()
        rig.watch.forget_peak()
        before = rig.watch.use()
        sent = rig.measured(size.messages)
        time.sleep(_SETTLED)  # the last acknowledgements and deletes are part of the work
        used, delays, tally = rig.watch.use().since(before), rig.tap.delays(), rig.sink.tally()
        return {
            "full.durable": size.messages / (delays.last - sent.began),
            "full.delivered": size.messages / (tally.last - sent.began),
            "full.growth": rig.watch.peak() - resident,
            **_costs("full", used, size.messages),
        }


def steady(rigged: Rigged, size: Size) -> Figures:
    """A constant rate, with the lingers that are shipped."""
    count = int(size.rate * size.seconds)
    with rigged(SHIPPED, 0) as rig:
        time.sleep(_SETTLED)
        before = rig.watch.use()
        rig.measured(count, rate=size.rate)
        time.sleep(_SETTLED)
        used, delays, tally = rig.watch.use().since(before), rig.tap.delays(), rig.sink.tally()
        return {
            "steady.p50": delays.p50 * 1000,
            "steady.p99": delays.p99 * 1000,
            "steady.max": delays.max * 1000,
            "steady.delivered": tally.p50 * 1000,
            **_costs("steady", used, count),
        }


def small_window(rigged: Rigged, size: Size) -> Figures:
    """A broker that leaves no more than 20 messages unacknowledged."""
    count = size.messages // 4
    with rigged(EAGER, _WINDOW) as rig:
        sent = rig.measured(count)
        return {"window.durable": count / (rig.tap.delays().last - sent.began)}


def idle(rigged: Rigged, _size: Size) -> Figures:
    """Nothing happens but what the system does by itself; then a message a second of each device."""
    with rigged(SHIPPED, 0) as rig:
        # As most hubs are: it has started since its devices were admitted.
        rig.system.kill()
        rig.system.launch()
        time.sleep(_STARTED)
        before = rig.watch.use()
        time.sleep(_IDLE)
        used, resident = rig.watch.use().since(before), rig.watch.resident()
        before = rig.watch.use()
        rig.measured(int(_IDLE * DEVICES), rate=DEVICES)
        worked = rig.watch.use().since(before)
        return {
            "idle.resident": resident,
            "idle.cpu": 100 * used.cpu / _IDLE,
            "calm.resident": rig.watch.resident(),
            "calm.cpu": 100 * worked.cpu / _IDLE,
        }


def start(rigged: Rigged, _size: Size) -> Figures:
    """From the start of the process until a message that has waited is acknowledged, and uploaded."""
    with rigged(BUSY, 0) as rig:
        rig.system.kill()
        rig.load(1).finish()
        rig.tap.reset()
        rig.sink.reset()
        began = time.monotonic()
        rig.system.launch()
        uploaded = rig.wait_for(1).last
        return {"start.durable": rig.tap.delays().last - began, "start.delivered": uploaded - began}


def outage(rigged: Rigged, size: Size) -> Figures:
    """The cloud is away while messages come; how much memory that takes, and how fast it drains."""
    with rigged(BUSY, 0) as rig:
        time.sleep(_SETTLED)
        # Private memory: what is mapped of program files comes and goes by itself meanwhile.
        private = rig.watch.memory().private
        rig.sink.stop()
        kept = _backlog(rig, size.messages)
        once = rig.watch.memory().private - private
        kept |= _backlog(rig, size.messages)
        twice = rig.watch.memory().private - private
        before = rig.watch.use()
        rig.sink.start()
        tally = rig.wait_for(len(kept))
        time.sleep(_SETTLED)
        used = rig.watch.use().since(before)
        return {
            "outage.growth": once,
            "outage.more": twice - once,
            "outage.drain": len(kept) / (tally.last - tally.first),
            "outage.cpu": 1000 * used.cpu / len(kept),
        }


def kill_in_burst(rigged: Rigged, size: Size) -> Figures:
    """SIGKILL in the middle of a burst."""
    return _killed("burst", rigged, size.messages)


def kill_at_rate(rigged: Rigged, size: Size) -> Figures:
    """SIGKILL at a steady rate."""
    return _killed("steady", rigged, int(6 * size.rate), rate=size.rate)


def kill_in_outage(rigged: Rigged, size: Size) -> Figures:
    """SIGKILL while the cloud is away."""
    return _killed("outage", rigged, size.messages // 4, away=True)


def _killed(name: str, rigged: Rigged, count: int, *, rate: float = 0.0, away: bool = False) -> Figures:
    """Kill the system when it has acknowledged a third, and start it again.

    Lost is what the broker had acknowledged and the cloud never got; doubled is what the cloud got under
    two ids.
    """
    with rigged(BUSY, 0) as rig:
        known = rig.sink.times().keys()
        if away:
            rig.sink.stop()
        rig.tap.reset()
        load = rig.load(count, rate=rate)
        while rig.tap.delays().count < count // 3:
            time.sleep(0.001)
        rig.system.kill()
        sent = load.finish()
        if away:
            rig.sink.start()
        rig.system.launch()
        _until_quiet(rig)
        times = rig.sink.times()
        return {
            f"kill.{name}.lost": len(sent.acknowledged - times.keys()),
            f"kill.{name}.doubled": sum(more > 1 for number, more in times.items() if number not in known),
        }


def _until_quiet(rig: Rig) -> None:
    """Wait until the system works again, and then until nothing more comes to the sink."""
    rig.wait_until_heard()
    quiet_for = 5.0
    last = (time.monotonic(), -1)
    while time.monotonic() - last[0] < quiet_for:
        count = rig.sink.tally().count
        if count != last[1]:
            last = (time.monotonic(), count)
        time.sleep(0.1)


def _backlog(rig: Rig, count: int) -> frozenset[int]:
    """Send messages that stay at the hub; returns once all are acknowledged by the system."""
    rig.tap.reset()
    sent: Sent = rig.load(count).finish()
    while rig.tap.delays().count < count:
        time.sleep(0.02)
    time.sleep(_SETTLED)
    return sent.acknowledged


def _costs(name: str, used: Use, count: int) -> Figures:
    return {
        f"{name}.cpu": 1000 * used.cpu / count,
        f"{name}.syncs": 1000 * used.syncs / count,
        f"{name}.written": used.written / (count * PAYLOAD),
    }
