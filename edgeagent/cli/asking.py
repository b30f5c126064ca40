"""Asking the running agent: HTTP over its admin socket, with the standard library alone.

A command line that is typed or polled has to start fast; aiohttp alone would take 100 ms of it.
"""

import argparse
import http.client
import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from typing_extensions import override

from edgeagent import config as configuration
from edgeagent.cli.failing import AgentDownError, AskingRefusedError, StrangeAnswerError
from edgeagent.cli.printing import complain
from edgeagent.cli.times import Times
from edgeagent.config import Config
from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.reports.refusal import TIME_HEADER, Kind, Refusal
from edgeagent.contracts.scalars import timestamp
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import HubId
from edgeagent.sections import HubSection

_ANSWER_BYTES: Final = 16 * 1024 * 1024
_PATIENCE: Final = 10.0
_OK: Final = range(200, 300)

C = TypeVar("C", bound=Contract)


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: Path, patience: float) -> None:
        super().__init__("localhost", timeout=patience)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Agent:
    """The agent that listens on a socket.

    Args:
        admin_socket: where.
        utc: whether moments are told as they are.
        mistakes: what is wrong with the configuration that the socket was known by. With an agent that
            answers it is a warning; without one it is what has to be put right first.
    """

    def __init__(
        self, admin_socket: Path, *, utc: bool = False, mistakes: ConfigurationError | None = None
    ) -> None:
        self._socket = admin_socket
        self._utc = utc
        self._mistakes = mistakes
        self._now: datetime | None = None

    @property
    def times(self) -> Times:
        """Writes times by the agent's idea of the present, as it came with its last answer."""
        return Times(None if self._utc else self._now)

    def get(self, path: str, answer: type[C], *, patience: float = _PATIENCE) -> C:
        """Ask for something.

        Raises:
            AgentDownError: nobody answers.
            ConfigurationError: nobody answers, and the configuration is wrong.
            AskingRefusedError: the agent says no.
            StrangeAnswerError: it says what we cannot read.
        """
        return _read(answer, self._request("GET", path, None, patience))

    def post(self, path: str, body: Contract, answer: type[C], *, patience: float = _PATIENCE) -> C:
        """Ask for something to be done; raises as ``get`` does."""
        return _read(answer, self._request("POST", path, encode(body), patience))

    def post_done(self, path: str) -> None:
        """Tell that something is done; raises as ``get`` does."""
        self._request("POST", path, b"", _PATIENCE)

    def delete(self, path: str, answer: type[C]) -> C:
        """Ask for something to be undone; raises as ``get`` does."""
        return _read(answer, self._request("DELETE", path, None, _PATIENCE))

    def _request(self, method: str, path: str, body: bytes | None, patience: float) -> bytes:
        connection = _UnixConnection(self._socket, patience)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            raw = response.read(_ANSWER_BYTES + 1)
            # What is left of the length that was announced; our agent always announces one.
            if response.length != 0 and len(raw) <= _ANSWER_BYTES:
                raise http.client.IncompleteRead(raw, response.length)
        except PermissionError as why:
            refusal = Refusal(kind=Kind.FORBIDDEN, error=f"you may not use {self._socket}")
            raise AskingRefusedError(refusal) from why
        except (OSError, http.client.HTTPException) as why:
            if self._mistakes is not None:
                raise self._mistakes from None
            raise AgentDownError(f"no agent answers on {self._socket}") from why
        finally:
            connection.close()
        self._now = _moment(response.getheader(TIME_HEADER))
        self._warn()
        if response.status in _OK:
            return raw
        try:
            refusal = decode(Refusal, raw, limit=_ANSWER_BYTES)
        except MalformedError:
            refusal = Refusal(kind=Kind.FAILED, error=f"the agent answered {response.status}")
        raise AskingRefusedError(refusal)

    def _warn(self) -> None:
        """Say once that the configuration is wrong: who never hears of it has none after a restart."""
        if self._mistakes is not None:
            complain(_warning(self._mistakes), "edgeagent config check")
            self._mistakes = None


def agent_of(arguments: argparse.Namespace) -> Agent:
    """The agent that the configuration names; where we may not read that, the one at the usual place.

    Where it is wrong it is the one that its remains lead to: that runs on, and can be looked at and stopped.

    Raises:
        ConfigurationError: it is wrong or is not there, and leads nowhere.
    """
    try:
        config = readable(arguments.config) or at_the_usual_place()
    except ConfigurationError as why:
        left = left_of(arguments.config)
        if left is None:
            raise
        return Agent(left.admin_socket, utc=arguments.utc, mistakes=why)
    return Agent(config.admin_socket, utc=arguments.utc)


def left_of(path: Path) -> Config | None:
    """What a wrong configuration still tells of where the agent is; None where it does not."""
    # Only who has mistyped something pays for it.
    from edgeagent.config_remains import remains

    return remains(path, os.environ)


def _warning(why: ConfigurationError) -> str:
    mistakes = str(why).split("\n")
    more = f", and {len(mistakes) - 1} more" if len(mistakes) > 1 else ""
    return f"the configuration is wrong, the agent goes on with an earlier one: {mistakes[0]}{more}"


def readable(path: Path) -> Config | None:
    """The configuration; None where we may not read it. Its socket may let us in all the same.

    Raises:
        ConfigurationError: it is wrong, or is not there.
    """
    try:
        return configuration.load(path)
    except ConfigurationError as why:
        if isinstance(why.__cause__, PermissionError):
            return None
        raise


def at_the_usual_place() -> Config:
    """A configuration that says nothing, for the places where an installed agent has its things."""
    return Config(hub=HubSection(id=HubId("unread")))


def _read(answer: type[C], raw: bytes) -> C:
    try:
        return decode(answer, raw, limit=_ANSWER_BYTES)
    except MalformedError as why:
        raise StrangeAnswerError(f"the agent's answer cannot be read: {why}") from why


def _moment(text: str | None) -> datetime | None:
    """The time beside an answer; None where there is none that can be read."""
    try:
        return None if text is None else timestamp(text)
    except MalformedError:
        return None
