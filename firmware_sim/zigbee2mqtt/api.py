"""The bridge API: requests on ``bridge/request/…``, answers on ``bridge/response/…``.

    request   {"id": "lamp", "transaction": "t1"}, or the bare id
    answer    {"data": {…}, "status": "ok", "transaction": "t1"}
              {"data": {}, "status": "error", "error": "…", "transaction": "t1"}

What bites: on an error ``data`` is empty, so that without ``transaction`` nobody knows which device it was.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from firmware_sim.fields import Json


class RequestError(Exception):
    """A request is not carried out; the message is the answer's ``error``."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as read.

    Attributes:
        name: what is asked for, such as ``device/ota_update/check``.
        fields: what with; ``id`` alone when it was no object.
        transaction: to be repeated; None when there was none, or it was neither text nor number (*assumed*:
            the real one repeats anything).
    """

    name: str
    fields: Mapping[str, Json]
    transaction: Json

    def text(self, name: str) -> str:
        """A field that is a text.

        Raises:
            RequestError: it is not there, or none.
        """
        value = self.fields.get(name)
        if not isinstance(value, str) or not value:
            raise RequestError("Invalid payload")
        return value

    def url(self) -> str | None:
        """``url``, if it is there.

        Raises:
            RequestError: it is none.
        """
        if self.fields.get("url") is None:
            return None
        url = self.text("url")
        if not url.startswith(("http://", "https://")):
            raise RequestError("Invalid payload")
        return url


def request(name: str, payload: bytes) -> Request:
    """Read a request; what is no JSON is a bare id."""
    try:
        value: Json = json.loads(payload.decode())
    except (ValueError, RecursionError):
        value = payload.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        transaction = value.get("transaction")
        return Request(name, value, transaction if isinstance(transaction, str | int | float) else None)
    return Request(name, {"id": value}, None)


def answer(asked: Request, data: Mapping[str, Json], error: str | None = None) -> dict[str, Json]:
    """The answer to a request."""
    told: dict[str, Json] = {"data": data if error is None else {}}
    told |= {"status": "ok"} if error is None else {"status": "error", "error": error}
    return told if asked.transaction is None else told | {"transaction": asked.transaction}
