"""Things that answer in the queue's place: portals, proxies, cut lines, and servers that mean harm.

A ``Portal`` listens on a free loopback port, reads one HTTP request after the other and answers each as
its script says. It keeps what it was asked, so that a test can see what left the hub.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_MOST_HEAD: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came.

    Attributes:
        method: of the request line.
        path: of the request line, with its query.
        headers: by name in lower case.
        body: the bytes behind them.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def query(self, name: str) -> str:
        """A parameter of the query."""
        return parse_qs(urlsplit(self.path).query)[name][0]


Script = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request by writing whatever it likes."""


class Portal:
    """A peer that is not the queue, or not quite.

    Attributes:
        asked: every request that came, in order.
    """

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def says(self, script: Script) -> None:
        """Answer otherwise from now on."""
        self._script = script

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}" if self._tls is None else f"https://localhost:{self.port}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (asked := await _read_request(reader)) is not None:
                self.asked.append(asked)
                await self._script(asked, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as why:
        if why.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


def answers(
    status: str,
    body: bytes = b"",
    *,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Script:
    """Always the same whole answer."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status, body, content_type=content_type, headers=headers))

    return script


def captive_portal() -> Script:
    """What a hotel's network answers to everything: 200, and a page to sign in."""
    return answers("200 OK", b"<html><body>Please sign in</body></html>", content_type="text/html")


def redirects(to: str) -> Script:
    """Sends everybody elsewhere."""
    return answers("302 Found", b"", content_type="text/html", headers={"Location": to})


def proves(**changed: object) -> Script:
    """The queue's own answer to an upload of event 1, with some fields changed; None removes one."""

    async def script(asked: Asked, writer: asyncio.StreamWriter) -> None:
        fields: dict[str, object] = {
            "batch": asked.query("batch"),
            "hub": urlsplit(asked.path).path.split("/")[3],  # a proxy is given the whole URL
            "epoch": asked.query("epoch"),
            "stream": asked.query("stream"),
            "taken": [[1, 1]],
            "refused": [],
        }
        fields = {name: value for name, value in (fields | changed).items() if value is not None}
        writer.write(response("200 OK", json.dumps(fields).encode()))

    return script


def truncates(body: bytes, *, announced: int) -> Script:
    """Announces a length, sends less, and hangs up."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(_head("200 OK", {"Content-Type": "application/json", "Content-Length": str(announced)}))
        writer.write(body)
        await writer.drain()
        writer.close()

    return script


def never_ends(chunk: bytes, *, pause: float = 0.0) -> Script:
    """Chunk after chunk for ever, as fast as they are read or one each ``pause`` seconds."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(_head("200 OK", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        while True:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            await asyncio.sleep(pause)

    return script


def says_nothing() -> Script:
    """Takes the request and never answers."""

    async def script(_asked: Asked, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    return script


def hangs_up() -> Script:
    """Takes the request and closes the connection."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.close()

    return script


def speaks(raw: bytes) -> Script:
    """Writes these bytes, HTTP or not, and hangs up."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    return script


def response(
    status: str,
    body: bytes,
    *,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a whole answer."""
    fields = {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}
    return _head(status, fields) + body


def _head(status: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class Authority:
    """A certificate authority, made when it is needed and forgotten with its folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self._key = Ed25519PrivateKey.generate()
        self._subject = _name_of(name)
        builder = _certificate(self._subject, self._subject, self._key, timedelta(days=2))
        self._certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, None)
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issues(
        self, name: str, *, host: str = "localhost", valid: timedelta = timedelta(days=1)
    ) -> tuple[Path, Path]:
        """Make a certificate for a host; one that has expired when ``valid`` is negative.

        Returns:
            The certificate's and the key's file.
        """
        key = Ed25519PrivateKey.generate()
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _certificate(_name_of(name), self._subject, key, valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(authority_key, critical=False)
            .sign(self._key, None)
        )
        files = (self._folder / f"{name}.cert.pem", self._folder / f"{name}.key.pem")
        files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files


def server_context(files: tuple[Path, Path], *, clients: Path | None = None) -> ssl.SSLContext:
    """The TLS of a server; one that wants certificates of its clients where ``clients`` is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return context


def _name_of(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PrivateKey, valid: timedelta
) -> x509.CertificateBuilder:
    end = datetime.now(UTC) + valid
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=10))
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
