"""From a host and port to a connected socket, with TLS where it is asked for.

    resolve ──> for each address in turn: TCP ──> TLS ──> socket

Each address has its own time-out, so that a dead first one only delays. Nothing here blocks the loop:
names and certificate files are looked up in a thread, the handshake waits for the socket. A
certificate is always checked, its name too; there is no setting that turns this off.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from edgeagent.adapters.mqtt.addresses import Address, Resolver, in_thread, look_up
from edgeagent.adapters.mqtt.settings import MqttSettings, TlsSettings
from edgeagent.ports.authorities import believing
from edgeagent.ports.links import LinkError, Trouble, of_verification

log = logging.getLogger(__name__)

# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of openssl/x509_vfy.h.
_OF_TIME: Final = frozenset({9, 10})


async def dial(settings: MqttSettings, resolver: Resolver) -> socket.socket:
    """Connect to the broker.

    Returns:
        A socket that does not block, with Nagle's delay switched off.

    Raises:
        LinkError: none of the addresses took us; the text tells what each said.
    """
    context = None if settings.tls is None else await _context(settings.tls)
    addresses = await look_up(resolver, settings.host, settings.port, within=settings.connect_timeout)
    trouble = Trouble.UNREACHABLE
    said: list[str] = []
    for address in addresses:
        try:
            async with asyncio.timeout(settings.connect_timeout.total_seconds()):
                return await _connect(address, context, settings)
        except TimeoutError:
            said.append(f"{address}: no answer")
        except LinkError as why:
            trouble = why.trouble
            said.append(f"{address}: {why}")
        except OSError as why:
            said.append(f"{address}: {os.strerror(why.errno) if why.errno else why}")
    raise LinkError(trouble, "; ".join(said))


async def _context(tls: TlsSettings) -> ssl.SSLContext:
    """Read the certificates, anew each time: they may have been renewed since.

    Raises:
        LinkError: a file is missing, not readable, or not what it should be.
    """
    try:
        return await in_thread(lambda: _load(tls))
    except OSError as why:  # ssl.SSLError is one
        raise LinkError(Trouble.TLS, f"cannot use the certificate files: {why}") from why


def _load(tls: TlsSettings) -> ssl.SSLContext:
    context = believing(file=tls.ca)
    if tls.certificate is not None:
        # Without this an encrypted key would make OpenSSL ask on the terminal, for ever.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
    return context


async def _connect(address: Address, context: ssl.SSLContext | None, settings: MqttSettings) -> socket.socket:
    loop = asyncio.get_running_loop()
    connection = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)  # noqa: FBT003 - it takes no keyword
        # Nagle's algorithm holds a PUBACK back for up to 40 ms: p50 2.35 ms with it, 0.50 ms without.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(connection, address.target)
        if context is not None and settings.tls is not None:
            # The TLS socket takes the descriptor over; closing it is then enough.
            connection = wrapped = _wrapped(connection, context, settings.tls.server_name or settings.host)
            await _handshake(wrapped)
    except BaseException:
        connection.close()
        raise
    return connection


def _wrapped(connection: socket.socket, context: ssl.SSLContext, name: str) -> ssl.SSLSocket:
    """Prepare for TLS with whoever has that name.

    Raises:
        LinkError: nobody can have it.
    """
    # Asked before: ``wrap_socket`` raises what is no OSError, and leaves the descriptor open.
    try:
        is_possible = b"\0" not in name.encode("idna")
    except UnicodeError:
        is_possible = False
    if not is_possible:
        raise LinkError(Trouble.TLS, f"{name!r} is no name that a certificate can have")
    return context.wrap_socket(connection, server_hostname=name, do_handshake_on_connect=False)


async def _handshake(connection: ssl.SSLSocket) -> None:
    """Agree on TLS.

    Raises:
        LinkError: it came to nothing; a peer that hangs up instead may not speak TLS at all.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(connection, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(connection, loop.add_writer, loop.remove_writer)
        except ssl.SSLError as why:
            code = why.verify_code if isinstance(why, ssl.SSLCertVerificationError) else 0
            raise LinkError(of_verification(code), _tls_words(why)) from why
        except ConnectionError as why:
            raise LinkError(Trouble.TLS, "TLS failed: the other side hung up") from why
        else:
            return


async def _ready(
    connection: socket.socket,
    watch: Callable[[int, Callable[[], None]], None],
    leave: Callable[[int], bool],
) -> None:
    """Wait until the socket can be read, or written."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def now() -> None:
        with contextlib.suppress(asyncio.InvalidStateError):  # told twice, or given up
            ready.set_result(None)

    watch(connection.fileno(), now)
    try:
        await ready
    finally:
        leave(connection.fileno())


def _tls_words(why: ssl.SSLError) -> str:
    """What was wrong with the handshake, for people."""
    if isinstance(why, ssl.SSLCertVerificationError):
        hint = " (or this hub's clock is wrong)" if why.verify_code in _OF_TIME else ""
        return f"certificate refused: {why.verify_message}{hint}"
    return f"TLS failed: {why.reason or why}"
