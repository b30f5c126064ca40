"""The names in paths and predicates: known where they stand, or refused."""

from collections.abc import Iterable

from edgeagent.core.profile.paths import Path
from edgeagent.core.profile.templates import Kinds
from edgeagent.errors import MalformedError


def check_names(names: Iterable[str], kinds: Kinds) -> None:
    """See that all names are known.

    Raises:
        MalformedError: one is not.
    """
    for name in sorted(names):
        if name not in kinds:
            raise MalformedError(f"nothing is called {{{name}}} here")


def check_path(place: Path, kinds: Kinds) -> None:
    """See that a path names one place, with known names in its keys.

    Raises:
        MalformedError: it does not.
    """
    if place.is_wild:
        raise MalformedError("a * stands in a pick only")
    check_names(place.placeholders, kinds)
