"""Addresses of this machine alone."""

import asyncio
import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
_PORTS: Final = range(28_000, 32_000)
"""Below the range from which the kernel gives ports to clients, so that none takes ours meanwhile."""


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            # As servers do: a connection that has just ended is no reason against a port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


async def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True
