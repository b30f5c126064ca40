"""Which device reports on which topic.

A topic belongs to one device. Only what devices share, such as a bridge's, is listened to by several: there
each of them says so of itself.
"""

from collections import deque
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

    def check(self, compiled: CompiledDevice) -> None:
        """See that a device takes no topic of another.

        Raises:
            RejectedError: names the other one.
        """
        why = self._taken(compiled, {}, {})
        if why is not None:
            raise RejectedError(why)

    def refused(self, moving: Mapping[DeviceId, CompiledDevice]) -> dict[DeviceId, str]:
        """Which of several devices cannot leave their topics for others at the same time, and why.

        Each is looked at again only when one that stays has a topic that it would take.

        Args:
            moving: those that move, as they are to be.
        """
        left, refused = dict(moving), dict[DeviceId, str]()
        claims: dict[str, dict[DeviceId, CompiledDevice]] = {}
        for name, compiled in moving.items():
            for topic in _topics(compiled):
                claims.setdefault(topic, {})[name] = compiled
        held = self._held(moving)
        waiting = deque(moving)
        while waiting:
            name = waiting.popleft()
            why = None if name not in left else self._taken(left[name], left, claims)
            if why is None:
                continue
            refused[name] = why
            for topic in _topics(left.pop(name)):
                del claims[topic][name]
            for topic in () if name not in held else _topics(held[name]):
                # What is common to both is in nobody's way.
                waiting += () if topic in held[name].common else claims.get(topic, ())
        return refused

    def _held(self, devices: Collection[DeviceId]) -> dict[DeviceId, CompiledDevice]:
        """These devices as they are."""
        return {
            owner.compiled.device: owner.compiled
            for routes in self._devices.values()
            for owners in routes.values()
            for owner in owners
            if owner.compiled.device in devices
        }

    def _taken(
        self,
        compiled: CompiledDevice,
        moving: Collection[DeviceId],
        claims: Mapping[str, Mapping[DeviceId, CompiledDevice]],
    ) -> str | None:
        for topic in _topics(compiled):
            for owner in (*self._owners(topic, moving), *claims.get(topic, {}).values()):
                if owner.device == compiled.device:
                    continue
                if topic not in compiled.common or topic not in owner.common:
                    return f"{owner.device} has the topic {topic}"
        return None

    def _owners(self, topic: str, but: Collection[DeviceId]) -> Iterable[CompiledDevice]:
        for routes in self._devices.values():
            for owner in routes.get(topic, ()):
                if owner.compiled.device not in but:
                    yield owner.compiled


def _topics(compiled: CompiledDevice) -> list[str]:
    return [wanted.filter for wanted in compiled.subscriptions]
