"""Asking the running agent: HTTP over its admin socket, with the standard library alone.

A command line that is typed or polled has to start fast; aiohttp alone would take 100 ms of it.
"""

import http.client
import socket
from pathlib import Path
from typing import Final, TypeVar

from typing_extensions import override

from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.reports.refusal import Refusal
from edgeagent.errors import MalformedError, RejectedError, TransientError

_ANSWER_BYTES: Final = 16 * 1024 * 1024
_PATIENCE: Final = 10.0
_OK: Final = range(200, 300)

C = TypeVar("C", bound=Contract)


class AgentDownError(TransientError):
    """No agent answers on the socket."""


class AskingRefusedError(RejectedError):
    """The agent said no.

    Attributes:
        advice: what it said to do.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.advice = refusal.advice


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
    """The agent that listens on a socket."""

    def __init__(self, admin_socket: Path) -> None:
        self._socket = admin_socket

    def get(self, path: str, answer: type[C], *, patience: float = _PATIENCE) -> C:
        """Ask for something.

        Raises:
            AgentDownError: nobody answers.
            AskingRefusedError: the agent says no.
        """
        return decode(answer, self._request("GET", path, None, patience), limit=_ANSWER_BYTES)

    def post(self, path: str, body: Contract, answer: type[C], *, patience: float = _PATIENCE) -> C:
        """Ask for something to be done; raises as ``get`` does."""
        return decode(answer, self._request("POST", path, encode(body), patience), limit=_ANSWER_BYTES)

    def post_done(self, path: str) -> None:
        """Tell that something is done; raises as ``get`` does."""
        self._request("POST", path, b"", _PATIENCE)

    def delete(self, path: str) -> None:
        """Ask for something to be undone; raises as ``get`` does."""
        self._request("DELETE", path, None, _PATIENCE)

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
            raise AskingRefusedError(
                Refusal(error=f"you may not use {self._socket}", advice="use sudo")
            ) from why
        except (OSError, http.client.HTTPException) as why:
            raise AgentDownError(f"no agent answers on {self._socket}") from why
        finally:
            connection.close()
        if response.status in _OK:
            return raw
        try:
            refusal = decode(Refusal, raw, limit=_ANSWER_BYTES)
        except MalformedError:
            refusal = Refusal(error=f"the agent answered {response.status}")
        raise AskingRefusedError(refusal)
