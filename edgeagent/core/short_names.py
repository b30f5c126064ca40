"""Ids as people type them: the beginning of one is enough where it is the beginning of no other.

What is typed whole is meant as it is, also where it is the beginning of a longer one. A beginning has at
least ``LEAST`` characters, so that a slip of the hand is hardly ever somebody's name.

Only what is typed at the hub is completed, and only to look at it. Who has something done names it whole, and
so does whatever is signed: the whole id of what is gone may be the beginning of what is still there.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from edgeagent.errors import AmbiguousError

LEAST: Final = 4
"""How many characters a beginning has at least."""
MOST: Final = 100
"""How many names are looked at, where a beginning is that of many."""

_TOLD: Final = 5
_SHORTEST: Final = 12


def meant(typed: str, begin_so: Sequence[str]) -> str:
    """The name that is meant by what was typed.

    Args:
        typed: what was.
        begin_so: names that begin with it, in their order: all, or the first ``MOST`` and one more.

    Returns:
        The name; what was typed where none begins so, for whoever looks for it to say so.

    Raises:
        AmbiguousError: it is the beginning of several; names some of them. Or it is too short.
    """
    if typed in begin_so or not begin_so:
        return typed
    if len(typed) < LEAST:
        raise AmbiguousError(f"{typed} is too little of an id: at least {LEAST} characters are needed")
    if len(begin_so) == 1:
        return begin_so[0]
    told, more = ", ".join(begin_so[:_TOLD]), len(begin_so) - _TOLD
    many = f"at least {more}" if len(begin_so) > MOST else str(more)
    raise AmbiguousError(
        f"{typed} is the beginning of several: {told}{f' and {many} more' if more > 0 else ''}"
    )


def named_whole(typed: str, name: str) -> None:
    """Refuse the beginning of a name, where something is to be done to whoever is called so.

    Raises:
        AmbiguousError: what was typed is not the name itself.
    """
    if typed != name:
        raise AmbiguousError(f"{typed} is the beginning of {name}: to have something done, type that whole")


def upper_end(typed: str) -> str:
    """What comes after each id that begins with what was typed, in the order of bytes."""
    # The last character that an id may have is z.
    return typed + "~"


def shortened(names: Iterable[str]) -> dict[str, str]:
    """The shortest beginning of each of these names that is that of no other one of them.

    It has at least twelve characters, so that it will hardly be that of one which is not among them.
    """
    ordered = sorted(set(names))
    kept = {}
    for before, name, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        length = max(_SHORTEST, _common(name, before) + 1, _common(name, after) + 1)
        kept[name] = name[:length]
    return kept


def _common(one: str, other: str) -> int:
    """How many characters two names begin with alike."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
