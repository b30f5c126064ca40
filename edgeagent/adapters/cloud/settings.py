"""How the queue is reached: address, login, trust, patience."""

import os
import re
import stat
from dataclasses import field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from typing_extensions import override
from yarl import URL

from edgeagent.errors import ConfigurationError
from edgeagent.values import dataclass

# RFC 6750 section 2.1, with a least length: a short token could be guessed from its stored hash.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,512}=*", re.ASCII)
_TOKEN_FILE_BYTES: Final = 4096


class Token:
    """A bearer token (RFC 6750). It prints as nothing, compares as nothing, and leaves by one door."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if _TOKEN.fullmatch(text) is None:
            raise ConfigurationError("a token is 16 to 512 of A-Z a-z 0-9 . _ ~ + / - and may end in =")
        self._text = text

    @override
    def __repr__(self) -> str:
        return "Token(...)"

    def header(self) -> str:
        """The value of the ``Authorization`` header."""
        return f"Bearer {self._text}"


def read_token(path: Path) -> Token:
    """Read a token from a file that only its owner and group can read.

    Raises:
        ConfigurationError: it cannot be read, others can read it, or it holds no token.
    """
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o007:
                raise ConfigurationError(f"{path}: everybody can read this token; chmod o= it")
            text = file.read(_TOKEN_FILE_BYTES).decode()
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    except UnicodeDecodeError as why:
        raise ConfigurationError(f"{path}: it holds no token") from why
    return Token(text.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """Where the queue is and how to speak to it.

    Attributes:
        url: ``https://host[:port][/prefix]``; plain ``http`` only to this very machine.
        token: who we are; None where our certificate says it.
        ca_file: the authorities that count, PEM; the system's where absent.
        certificate: our certificate chain, PEM, where the far side wants one.
        key: the private key of ``certificate``, PEM; None where that file holds it.
        proxy: ``http://[user:password@]host:port``; nothing is read from the environment.
        connect_timeout: for name, route, handshake together.
        total_timeout: for a whole exchange, beyond what the far side was asked to wait.
        most_answer_bytes: the most bytes of an answer that are read.

    Raises:
        ConfigurationError: the address is none, or would show the token to the network.
    """

    url: str
    token: Token | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    connect_timeout: timedelta = timedelta(seconds=10)
    total_timeout: timedelta = timedelta(seconds=30)
    most_answer_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        url = _url(self.url, "the queue's address")
        if url.scheme not in {"http", "https"} or not url.host:
            raise ConfigurationError("the queue's address is https://host[:port][/prefix]")
        if url.scheme == "http" and not is_loopback(url.host):
            raise ConfigurationError("plain http would show the token to the network: use https")
        if url.user is not None or url.query_string or url.fragment:
            raise ConfigurationError("the queue's address has no user, query or fragment")
        if self.proxy is not None and _url(self.proxy, "the proxy's address").scheme not in {"http", "https"}:
            raise ConfigurationError("the proxy's address is http://host:port")
        if self.key is not None and self.certificate is None:
            raise ConfigurationError("a key without its certificate")

    @property
    def base(self) -> URL:
        """The address that paths are joined to."""
        return URL(self.url)


def is_loopback(host: str) -> bool:
    """Whether a host is this very machine, by its name alone: nothing is resolved."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url(text: str, name: str) -> URL:
    try:
        return URL(text)
    except ValueError as why:
        # Not its text: it may hold a password.
        raise ConfigurationError(f"{name} is no URL") from why
