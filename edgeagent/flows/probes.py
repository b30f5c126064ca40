"""Asking devices how they are, unbidden: when they are admitted, come online, or we have been away.

Some families tell nothing by themselves (the captured last will of a Shelly is not retained), so that
after a restart there would be nothing to go by. A question changes nothing and takes no lock; its answer
comes in like any other message. Each device is asked at most once in a while, whatever it does.
"""

import logging
from datetime import timedelta
from secrets import randbits
from typing import Final

from edgeagent.contracts.mqtt import Outgoing
from edgeagent.errors import AgentError
from edgeagent.flows.bells import Bell
from edgeagent.flows.devices import Device, Devices
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId
from edgeagent.ports.broker import DeviceBus

log = logging.getLogger(__name__)

# One that flaps is not asked at each flap.
_NOT_SOONER: Final = timedelta(seconds=10)
_NUMBER_BITS: Final = 31


class Probes:
    """Asks devices; one message for each occasion."""

    def __init__(self, bus: DeviceBus, devices: Devices, around: Surroundings) -> None:
        self._bus = bus
        self._devices = devices
        self._around = around
        self._wanted: set[DeviceId] = set()
        self._asked: dict[DeviceId, timedelta] = {}
        self._bell = Bell()

    def ask(self, device: DeviceId) -> None:
        """Have a device asked soon."""
        self._wanted.add(device)
        self._bell.ring()

    def ask_all(self) -> None:
        """Have every device asked soon: we have been away."""
        for device in self._devices.all():
            self._wanted.add(device.id)
        self._bell.ring()

    async def run(self) -> None:
        """Ask whoever is to be asked; ends only by cancellation."""
        while True:
            await self._bell.wait(self._until_next())
            now = self._around.clock.boot()
            for device in self._devices.all():
                if self._is_due(device, now):
                    self._wanted.discard(device.id)
                    self._asked[device.id] = now
                    await self._send(device)
            known = {device.id for device in self._devices.all()}
            self._wanted &= known
            self._asked = {name: at for name, at in self._asked.items() if name in known}

    def _is_due(self, device: Device, now: timedelta) -> bool:
        due = self._due(device)
        return due is not None and now >= due

    def _due(self, device: Device) -> timedelta | None:
        """When a device is to be asked next; None: not by itself."""
        asked = self._asked.get(device.id)
        if device.id in self._wanted:
            return timedelta(0) if asked is None else asked + _NOT_SOONER
        every = device.compiled.probe_every
        return None if every is None or asked is None else asked + every

    def _until_next(self) -> timedelta | None:
        due = [moment for device in self._devices.all() if (moment := self._due(device)) is not None]
        return None if not due else max(timedelta(0), min(due) - self._around.clock.boot())

    async def _send(self, device: Device) -> None:
        step = device.compiled.probe(number=randbits(_NUMBER_BITS))
        if step is None:
            return
        seconds = max(1, int(step.expectation.within.total_seconds()))
        try:
            await self._bus.publish(Outgoing(topic=step.topic, payload=step.payload, expires_in=seconds))
        except AgentError as why:
            # It has not been asked: it is when the connection stands, however soon that is.
            self._asked.pop(device.id, None)
            log.info("device not asked", extra={"device": device.id, "why": str(why)})
