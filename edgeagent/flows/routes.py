"""Which device reports on which topic.

A topic belongs to one device. Only what devices share, such as a bridge's, is listened to by several: there
each of them says so of itself.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from edgeagent.contracts.mqtt import Session
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.errors import RejectedError
from edgeagent.ids import DeviceId


class Routed(Protocol):
    """Who can be found by a topic."""

    @property
    def compiled(self) -> CompiledDevice:
        """How it is spoken to."""
        ...


D = TypeVar("D", bound=Routed)


class Routes(Generic[D]):
    """The devices by session and topic."""

    def __init__(self) -> None:
        self._devices: dict[Session, dict[str, tuple[D, ...]]] = {session: {} for session in Session}

    def on(self, session: Session, topic: str) -> tuple[D, ...]:
        """Who reports on a topic."""
        return self._devices[session].get(topic, ())

    def enter(self, device: D) -> None:
        """Find a device by its topics from now on."""
        for wanted in device.compiled.subscriptions:
            routes = self._devices[wanted.session]
            routes[wanted.filter] = (*routes.get(wanted.filter, ()), device)

    def leave(self, devices: Collection[DeviceId]) -> None:
        """Find these no more."""
        for routes in self._devices.values():
            for topic, owners in list(routes.items()):
                left = tuple(each for each in owners if each.compiled.device not in devices)
                if not left:
                    del routes[topic]
                elif len(left) < len(owners):
                    routes[topic] = left

    def clear(self) -> None:
        """Find nobody."""
        for routes in self._devices.values():
            routes.clear()

    def check(self, compiled: CompiledDevice, moving: Mapping[DeviceId, CompiledDevice]) -> None:
        """See that a device takes no topic of another.

        Args:
            compiled: the device.
            moving: those that leave their topics at the same time, as they are to be.

        Raises:
            RejectedError: names the other one.
        """
        for wanted in compiled.subscriptions:
            for owner in (*self._owners(wanted.filter, moving), *moving.values()):
                if owner.device == compiled.device or not _has(owner, wanted.filter):
                    continue
                if wanted.filter not in compiled.common or wanted.filter not in owner.common:
                    raise RejectedError(f"{owner.device} has the topic {wanted.filter}")

    def _owners(self, topic: str, but: Collection[DeviceId]) -> Iterable[CompiledDevice]:
        for routes in self._devices.values():
            for owner in routes.get(topic, ()):
                if owner.compiled.device not in but:
                    yield owner.compiled


def _has(compiled: CompiledDevice, topic: str) -> bool:
    return any(each.filter == topic for each in compiled.subscriptions)
