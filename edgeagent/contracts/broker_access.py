"""Whose rules are in force at a broker of the hub's own: what whoever writes them tells the agent.

The agent may read neither rules nor passwords. It is told a line for each login of devices, in a file that
all may
read: the digest of its rules, its name, and how it stands. Lines that begin with ``#`` say nothing.
"""

from collections.abc import Sequence
from typing import Final

from edgeagent import ids
from edgeagent.errors import MalformedError
from edgeagent.ids import Digest
from edgeagent.values import dataclass

_WORDS: Final = 4
_PASSWORD: Final = {True: "password", False: "none"}
_STANDING: Final = {True: "expected", False: "admitted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rules of a login.

    Attributes:
        digest: of its rules.
        login: its name.
        has_password: whether anybody can come with it.
        is_expected: whether none of its devices was admitted when it was written.
    """

    digest: Digest
    login: str
    has_password: bool
    is_expected: bool

    @property
    def line(self) -> str:
        """As it stands in the file."""
        return f"{self.digest} {self.login} {_PASSWORD[self.has_password]} {_STANDING[self.is_expected]}"


def read_rules(text: str) -> Sequence[Rule]:
    """The lines of the file.

    Raises:
        MalformedError: one is none of ours.
    """
    return [_rule(line) for line in text.splitlines() if line and not line.startswith("#")]


def _rule(line: str) -> Rule:
    words = line.split(" ")
    if len(words) != _WORDS or words[2] not in _PASSWORD.values() or words[3] not in _STANDING.values():
        raise MalformedError(f"no rule of a login: {line[:80]!r}")
    return Rule(
        digest=ids.digest(words[0]),
        login=words[1],
        has_password=words[2] == _PASSWORD[True],
        is_expected=words[3] == _STANDING[True],
    )
