"""Reading what people type: actions, arguments, lengths of time."""

import argparse
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from edgeagent.cli.guessing import did_you_mean
from edgeagent.contracts.actions import CATALOGUE, ActionName, ArgumentKind, ArgumentValue
from edgeagent.contracts.door import parse
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.scalars import duration
from edgeagent.errors import MalformedError, RejectedError

KINDS: Final = "all, tier:low, tier:medium, tier:high, or action:NAME"
"""The kinds of command that can be stopped, for people."""

_NUMBER_BYTES: Final = 32
_SHOWN: Final = 40
_TRUTHS: Final = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


def length_of_time(text: str) -> timedelta:
    """Read a length of time for argparse."""
    try:
        return duration(text)
    except RejectedError as why:
        raise argparse.ArgumentTypeError(str(why)) from why


def action_of(text: str) -> ActionName:
    """Read an action.

    Raises:
        RejectedError: there is none of that name; says which there are.
    """
    if text not in set(ActionName):
        near = did_you_mean(text, ActionName)
        raise RejectedError(f"there is no action {text[:_SHOWN]!r}{near or ': ' + ', '.join(ActionName)}")
    return ActionName(text)


def kind_of(text: str) -> str:
    """Read a kind of command, as the kill switch knows them.

    Raises:
        RejectedError: there is none of that name; says which there are.
    """
    known = {"all", *(f"tier:{tier}" for tier in Tier), *(f"action:{name}" for name in ActionName)}
    if text not in known:
        raise RejectedError(f"there is no kind {text[:_SHOWN]!r}: {KINDS}{did_you_mean(text, known)}")
    return text


def arguments_of(action: ActionName, texts: Sequence[str]) -> dict[str, ArgumentValue]:
    """Read NAME=VALUE by the types that the catalogue gives the action's arguments.

    Raises:
        RejectedError: names the argument and what it can be.
    """
    found: dict[str, ArgumentValue] = {}
    for text in texts:
        name, value = _argument(action, text)
        if name in found:
            raise RejectedError(f"{name} is given twice")
        found[name] = value
    return found


def _argument(action: ActionName, text: str) -> tuple[str, ArgumentValue]:
    name, found, value = text.partition("=")
    if not found:
        raise RejectedError(f"not NAME=VALUE: {text!r}")
    argument = CATALOGUE[action].arguments.get(name)
    if argument is None:
        known = ", ".join(CATALOGUE[action].arguments) or "none"
        near = did_you_mean(name, CATALOGUE[action].arguments)
        raise RejectedError(f"{action} has no argument {name[:_SHOWN]!r}; it has: {known}{near}")
    if argument.kind in {ArgumentKind.TEXT, ArgumentKind.ARTIFACT, ArgumentKind.DIGEST}:
        return name, value
    if argument.kind is ArgumentKind.BOOLEAN and value.lower() in _TRUTHS:
        return name, _TRUTHS[value.lower()]
    try:
        parsed: object = parse(value.encode(), limit=_NUMBER_BYTES)
    except (MalformedError, UnicodeEncodeError):
        parsed = None
    if (
        argument.kind is ArgumentKind.BOOLEAN
        or isinstance(parsed, bool)
        or not isinstance(parsed, int | float)
    ):
        known = ", ".join(_TRUTHS) if argument.kind is ArgumentKind.BOOLEAN else argument.kind
        raise RejectedError(f"{name} is {known}, not {value[:_SHOWN]!r}")
    return name, parsed
