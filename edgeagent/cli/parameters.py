"""``NAME=VALUE``: a parameter of a device's profile, as it is typed."""

import json

from pydantic import JsonValue

from edgeagent.errors import RejectedError


def parameter(text: str) -> tuple[str, JsonValue]:
    """Read NAME=VALUE: a value that is JSON is taken as such, any other as text.

    Raises:
        RejectedError: there is no ``=`` in it.
    """
    name, found, value = text.partition("=")
    if not found:
        raise RejectedError(f"not NAME=VALUE: {text!r}")
    try:
        parsed: JsonValue = json.loads(value)
    except ValueError:
        return name, value
    return name, parsed
