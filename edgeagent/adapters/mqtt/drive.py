"""Lets the asyncio loop drive one connection's wire: read, write, keepalive.

    readable ──> pump, at most a few hundred packets ──> again in the next turn if more is in memory
    flush ─────> all at once; what the socket does not take leaves when it is writable

No turn of the loop handles more than one read or a few hundred packets, so a flood on one connection
leaves the loop to the others.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Final

from edgeagent.adapters.mqtt.poison import UnreadableError
from edgeagent.adapters.mqtt.wire import Wire
from edgeagent.ports.links import LinkError

# Packets handled before the loop gets its turn: 2 ms on a small board.
_PACKETS_PER_TURN: Final = 500
# The keepalive is looked at so often within it. We are late by at most that part; a broker waits for
# half as long again (MQTT 5 section 3.1.2.10).
_TICKS: Final = 8
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Drive:
    """A wire on the loop.

    Args:
        wire: the client, with its callbacks set.
        dialled: its connected socket; closed by ``stop``.
        failed: told when the connection is over.
    """

    def __init__(self, wire: Wire, dialled: socket.socket, failed: Callable[[LinkError], None]) -> None:
        self._wire = wire
        self._socket = dialled
        # Its number, since paho closes the socket by itself and a closed one has none.
        self._descriptor = dialled.fileno()
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._paused = False
        self._stopped = False
        self._writing = False
        self._again: asyncio.Handle | None = None
        self._ticking: asyncio.TimerHandle | None = None
        wire.on_socket_register_write = lambda *_: self._want_write()
        wire.on_socket_unregister_write = lambda *_: self._written()
        wire.on_socket_close = lambda *_: self._leave_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def start_keepalive(self) -> None:
        """Look at the keepalive from now on."""
        # A broker may switch the keepalive off with 0.
        every = self._wire.keepalive / _TICKS or 1.0
        self._ticking = self._loop.call_later(every, self._tick)

    def pause(self) -> None:
        """Read no more until ``resume``; not for longer than half a keepalive, or paho gives up."""
        if not self._stopped:
            self._paused = True
            self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        """Read on."""
        if self._paused and not self._stopped:
            self._paused = False
            self._loop.add_reader(self._descriptor, self._read)
            self._read_again()  # what was read before the pause and is still in memory

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        if self._stopped:
            return
        self._wire.loop_write()  # a failure comes by way of on_disconnect
        if self._wire.want_write() and self._is_on_loop() and not self._writing:
            self._writing = True
            self._loop.add_writer(self._descriptor, self.flush)

    def stop(self, *, abort: bool) -> None:
        """Close the socket.

        Args:
            abort: throw away what has not left yet, so that nothing arrives late.
        """
        self._leave_loop()
        self._wire.on_socket_register_write = None
        self._wire.on_socket_unregister_write = None
        self._wire.on_socket_close = None
        if abort:
            with contextlib.suppress(OSError):  # closed already
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._socket.close()

    def _leave_loop(self) -> None:
        """Leave the loop while the descriptor is still ours; it may be another's in a moment."""
        if self._stopped:
            return
        self._stopped = True
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        for handle in (self._again, self._ticking):
            if handle is not None:
                handle.cancel()

    def _read_again(self) -> None:
        # One at a time: the socket's readable event comes beside it.
        if self._again is None and not self._stopped:
            self._again = self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._again = None
        self._read()

    def _read(self) -> None:
        if self._paused or self._stopped:
            return
        try:
            more = self._wire.pump(_PACKETS_PER_TURN)
        except LinkError as why:
            self._failed(why)
        except Exception as why:  # noqa: BLE001 - whatever paho makes of a stranger's bytes, it ends here
            self._failed(UnreadableError(f"not understood: {why!r}"))
        else:
            if more:
                self._read_again()

    def _want_write(self) -> None:
        self._loop.call_soon(self.flush)

    def _written(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._descriptor)

    def _tick(self) -> None:
        self._wire.loop_misc()  # a failure comes by way of on_disconnect
        if self._is_on_loop():
            self.start_keepalive()

    def _is_on_loop(self) -> bool:
        return not self._stopped
