"""The parts of a bundle: gathered one by one, cleaned, bounded; what cannot be had is told and stops nothing.

Nothing is written here, and nothing is kept that was not cleaned.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from edgeagent.core.redacting import Redactor
from edgeagent.errors import AgentError
from edgeagent.values import dataclass

PART_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of a part; of a longer one the end is kept."""
_CUT: Final = "[what came before was cut off]\n"
_WHY: Final = 300


@dataclass(frozen=True, slots=True)
class Source:
    """Where a part comes from.

    Attributes:
        name: of its file in the bundle.
        what: a few words for people.
        read: gives its text; raises AgentError or OSError where it cannot be had.
    """

    name: str
    what: str
    read: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was gathered.

    Attributes:
        name: of its file.
        what: a few words for people.
        content: its bytes, cleaned.
        redacted: how often something was taken out.
        is_cut: whether its beginning is missing.
    """

    name: str
    what: str
    content: bytes
    redacted: int = 0
    is_cut: bool = False

    @property
    def digest(self) -> str:
        """The sha256 of its bytes in hexadecimal."""
        return sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that could not be had."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """All of it, in the order of its sources."""

    parts: Sequence[Part]
    missing: Sequence[Missing]


def gather(sources: Sequence[Source], redactor: Redactor) -> Gathered:
    """Gather what can be had."""
    parts: list[Part] = []
    missing: list[Missing] = []
    for source in sources:
        try:
            text = source.read()
        except (AgentError, OSError) as why:
            words, _ = redactor.clean(str(why))
            missing.append(
                Missing(source.name, words.splitlines()[0][:_WHY] if words else type(why).__name__)
            )
        else:
            parts.append(_part(source, text, redactor))
    return Gathered(parts, missing)


def _part(source: Source, text: str, redactor: Redactor) -> Part:
    # Cleaned before it is cut: half a secret would not be known again.
    cleaned, count = redactor.clean(text)
    content = cleaned.encode("utf-8", "backslashreplace")
    if len(content) <= PART_BYTES:
        return Part(source.name, source.what, content, count)
    _, _, kept = content[-PART_BYTES:].partition(b"\n")
    return Part(source.name, source.what, _CUT.encode() + kept, count, is_cut=True)
