"""The way of an image to one device, block by block over the radio; the device asks for each.

blocks --all there--> looked at --whole--> installed: the device boots it
   |                      +--not taken--> INVALID_IMAGE
   +--silence, a reboot, lost--> timed out
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from firmware_sim.faults import Kind
from firmware_sim.firmware import Board, PowerLostError, Timer, Timing
from firmware_sim.image import SECTOR, BadImageError
from firmware_sim.updating import Progress
from firmware_sim.zigbee2mqtt.end_device import EndDevice
from firmware_sim.zigbee2mqtt.image import whole

TIMED_OUT: Final = "Timeout. Device did not start/finish firmware download after being notified. (65000ms)"
"""The device fell silent."""
_REFUSED: Final = "INVALID_IMAGE"
_LEAST_STEPS: Final = 20
_FULL: Final = 100


class Follower(Protocol):
    """Who follows a transfer."""

    def progressed(self, percent: int, remaining: timedelta) -> None:
        """So much is there."""
        ...

    def ended(self, why: str) -> None:
        """It is over; empty when the device has taken it and boots it now."""
        ...

    def moved(self, device: EndDevice) -> None:
        """The device cannot be reached any more, or again."""
        ...


class Transfer:
    """One transfer; starts when made.

    Args:
        board: of the bridge.
        device: to which.
        image: what.
        timing: how long things take.
        follower: who is told.
    """

    def __init__(
        self, board: Board, device: EndDevice, image: bytes, timing: Timing, follower: Follower
    ) -> None:
        self._board = board
        self._device = device
        self._image = image
        self._timing = timing
        self._follower = follower
        self._sent = 0
        # Whole sectors, so that the device writes as it gets them.
        sectors = -(-len(image) // SECTOR)
        self._block = max(sectors // _LEAST_STEPS, 1) * SECTOR
        self._progress = Progress(board, device.ieee, device.flash.updates)
        self._waiting: Timer | None = None
        self._under_power(device.flash.begin)
        self._next()

    def cancel(self) -> None:
        """End it; what the device has got is worth nothing."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _next(self) -> None:
        if self._device.reachable:
            span = self._timing.transfer * min(self._block, len(self._image)) / len(self._image)
            self._wait(span, self._send)

    def _wait(self, span: timedelta, then: Callable[[], None]) -> None:
        self._waiting = self._board.start_timer(span, then)

    def _send(self) -> None:
        self._waiting = None
        if self._misses():
            return
        data = self._image[self._sent : self._sent + self._block]
        if not self._under_power(lambda: self._device.flash.write(data)):
            return
        self._sent += len(data)
        share = self._sent / len(self._image)
        self._follower.progressed(self._progress.told(_FULL * share), self._timing.transfer * (1 - share))
        if self._sent < len(self._image):
            self._next()
        else:
            self._finish()

    def _misses(self) -> bool:
        """Whether the device does not ask for the next block."""
        percent, update = _FULL * self._sent / len(self._image), self._device.flash.updates
        stalled = self._board.befalls(Kind.STALL, self._device.ieee, percent=percent, update=update)
        if stalled is not None:
            if stalled.lasting is not None:
                self._wait(stalled.lasting, self._send)
            return True
        gone = self._board.befalls(Kind.VANISH, self._device.ieee, percent=percent, update=update)
        if gone is not None:
            self._device.leave()
        lost = gone or self._board.befalls(Kind.WIFI_LOST, self._device.ieee, percent=percent, update=update)
        if lost is None:
            return False
        if gone is None:
            self._away(lost.lasting)
        self._follower.moved(self._device)
        self._wait(self._timing.settle, lambda: self._follower.ended(TIMED_OUT))
        return True

    def _away(self, lasting: timedelta | None) -> None:
        device, follower = self._device, self._follower
        device.reachable = False

        def back() -> None:
            device.reachable = not device.gone
            follower.moved(device)

        self._board.start_timer(self._timing.reconnect if lasting is None else lasting, back)

    def _finish(self) -> None:
        device, paired = self._device, self._device.paired
        try:
            label = whole(device.flash.arrived, device.born.kind, paired.hardware)
        except BadImageError as why:
            self._follower.ended(str(why))
            return
        if self._board.befalls(Kind.OWN_CHECK, device.ieee, update=device.flash.updates):
            self._follower.ended(_REFUSED)
        elif self._under_power(lambda: device.flash.install(label)):
            self._follower.ended("")

    def _under_power(self, work: Callable[[], None]) -> bool:
        """Let the device write; when its power fails it boots, and has forgotten the transfer."""
        try:
            work()
        except PowerLostError:
            device = self._device
            device.restart(self._timing.boot, lambda: self._follower.moved(device))
            self._follower.moved(device)
            self._wait(self._timing.settle, lambda: self._follower.ended(TIMED_OUT))
            return False
        return True
