"""The frames of Shelly's RPC (shelly-api-docs, General: RPC Protocol, Common Errors).

    request       {"id": 7, "src": "gw", "method": "Switch.Set", "params": {"id": 0, "on": true}}
    response      {"id": 7, "src": "<device id>", "dst": "gw", "result": {...}}
                  {"id": 7, "src": "<device id>", "dst": "gw", "error": {"code": -103, "message": "..."}}
    notification  {"src": "<device id>", "dst": "<prefix>/events", "method": "NotifyStatus", "params": {...}}

What matters to the other side:

*   ``src`` of a response is the *device id*, whatever the topic prefix is.
*   The topic of the response is chosen by the asker: ``<src>/rpc``. Anybody may name anybody's ``src``.
*   A frame without ``id`` is carried out and not answered; so is one without ``src``, since there is nowhere
    to answer to (*assumed* for ``src``). What is no frame at all is dropped without a word.
*   Method names are taken in any case: ``switch.set`` works.
*   The 401 challenge is JSON inside the text of ``message``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from firmware_sim.fields import Json


class RpcError(Exception):
    """The answer to a request that is not carried out.

    Attributes:
        code: negative for the codes of Common Errors, 404 and 401 as HTTP has them.
        message: as the firmware words it.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid_argument(message: str) -> RpcError:
    """-103, INVALID_ARGUMENT."""
    return RpcError(-103, message)


def not_found(number: int) -> RpcError:
    """-105, NOT_FOUND: the method exists, the component does not."""
    return RpcError(-105, f"Argument 'id', value {number} not found!")


def failed_precondition(message: str) -> RpcError:
    """-109, FAILED_PRECONDITION."""
    return RpcError(-109, message)


def unavailable(message: str) -> RpcError:
    """-114, UNAVAILABLE."""
    return RpcError(-114, message)


def no_handler(method: str) -> RpcError:
    """404: this device has no such method."""
    return RpcError(404, f"No handler for {method}")


def challenge(realm: str, nonce: int) -> RpcError:
    """401: the password is asked for (General: Authentication)."""
    asked = {"auth_type": "digest", "nonce": nonce, "nc": 1, "realm": realm, "algorithm": "SHA-256"}
    return RpcError(401, json.dumps(asked))


class Parameters:
    """The parameters of a request, asked for by type.

    Every method raises ``RpcError`` -103 when what was sent does not fit.
    """

    def __init__(self, given: Mapping[str, Json]) -> None:
        self._given = given

    def component(self) -> int:
        """``id``, which every method of a component requires."""
        value = self._given.get("id")
        if value is None:
            raise invalid_argument("Missing required 'id'")
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid_argument("Argument 'id' should be number!")
        return value

    def named(self) -> Json:
        """``id`` as it was given, whatever it is."""
        return self._given.get("id")

    def flag(self, name: str) -> bool | None:
        """A truth value; None when it is not given. 1 and "true" are none."""
        value = self._given.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise invalid_argument(f"Argument '{name}' should be boolean!")

    def text(self, name: str) -> str | None:
        """A text; None when it is not given."""
        value = self._given.get(name)
        if value is None or isinstance(value, str):
            return value
        raise invalid_argument(f"Argument '{name}' should be string!")

    def number(self, name: str, *, least: float, most: float) -> float | None:
        """A number in a range; None when it is not given."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise invalid_argument(f"Argument '{name}' should be number!")
        if not least <= value <= most:
            raise invalid_argument(f"Argument '{name}' is out of range [{least:g}, {most:g}]!")
        return value


@dataclass(frozen=True, slots=True)
class Request:
    """A request frame.

    Attributes:
        id: to be repeated in the response; None asks for none.
        src: who asks; None when not told.
        method: as written.
        params: what with.
    """

    id: int | str | None
    src: str | None
    method: str
    params: Parameters


def request(payload: bytes) -> Request | None:
    """Read a request frame; None when it is none."""
    try:
        frame: Json = json.loads(payload.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(frame, Mapping):
        return None
    number, source, method = frame.get("id"), frame.get("src"), frame.get("method")
    params = frame.get("params", {})
    if not isinstance(method, str) or not isinstance(params, Mapping):
        return None
    return Request(
        id=number if isinstance(number, int | str) and not isinstance(number, bool) else None,
        src=source if isinstance(source, str) and source else None,
        method=method,
        params=Parameters(params),
    )
