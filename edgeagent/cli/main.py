"""``edgeagent``: parse the words, find the noun, print its answer.

Exit statuses: 0 done; 1 refused or failed; 2 wrong words; 69 no agent answers; 78 the configuration
is wrong; 130 interrupted; 141 whoever read the answer has gone. ``health`` answers as monitoring plugins do:
0 ok, 1 warning, 2 critical, 3 unknown. docs/operating.md says what else there is.
"""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from pydantic import ValidationError

from edgeagent.cli.failing import WordsError, failure
from edgeagent.cli.parsing import Parser, VersionAction, leaf, strange_options, unknown_words
from edgeagent.cli.printing import complain, survive_other_encodings
from edgeagent.cli.words import Nouns
from edgeagent.config import DEFAULT_PATH
from edgeagent.errors import AgentError, RejectedError

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130
EXIT_NOBODY_READS: Final = 141

_ANYWHERE: Final = frozenset({"--json", "--utc", "--wide"})
_ANYWHERE_WITH_VALUE: Final = ("--color", "--config")

Handler = Callable[[argparse.Namespace], int]

NOUNS: Final[Mapping[str, str]] = {
    "run": "run",
    "worker": "worker",
    "health": "health",
    "status": "health",
    "devices": "devices",
    "send": "commands",
    "commands": "commands",
    "dead-letters": "dead_letters",
    "breakers": "breakers",
    "locks": "locks",
    "policy": "policy",
    "hub": "hub",
    "broker": "broker",
    "clock": "clock",
    "outbox": "outbox",
    "artifacts": "artifacts",
    "firmware": "firmware",
    "audit": "audit",
    "backup": "backup",
    "drill": "drill",
    "support-bundle": "support_bundle",
    "config": "config",
    "setup": "setup",
    "issuer": "issuer",
    "fetch": "fetch",
}
"""Each first word, and the module of this room that has it; in the order of the help."""


class _Noun(Protocol):
    """A module of this room that has words."""

    def add_to(self, nouns: Nouns) -> None:
        """Add the words of this noun."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status; see the module's docstring.
    """
    survive_other_encodings()
    try:
        status = _run(list(sys.argv[1:] if words is None else words))
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        # As shells have it: 128 and the number of the signal.
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _give_up_printing()
        return EXIT_NOBODY_READS
    except OSError as why:
        if why.errno != errno.ENOSPC or why.filename is not None:
            raise
        _give_up_printing()
        complain("the answer cannot be written: no space is left", "df, or print it elsewhere")
        return EXIT_FAILED
    return status


def parser(noun: str | None = None) -> Parser:
    """Everything that can be typed; or what can be typed with this first word.

    To load all of it takes several times as long as most commands do, on a small machine a second.
    """
    top = Parser(prog="edgeagent", description="The agent on a venue's hub.")
    anywhere = top.add_argument_group("options that may stand anywhere")
    anywhere.add_argument(
        "--config",
        type=Path,
        default=Path(os.environ.get("EDGEAGENT_CONFIG", DEFAULT_PATH)),
        help=f"the configuration (default: $EDGEAGENT_CONFIG or {DEFAULT_PATH})",
    )
    anywhere.add_argument("--json", action="store_true", help="print one JSON object, errors too")
    anywhere.add_argument("--utc", action="store_true", help="print times as they are, not how long ago")
    anywhere.add_argument("--wide", action="store_true", help="print ids whole in lists")
    anywhere.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="auto: on a terminal only"
    )
    top.add_argument("--version", action=VersionAction, help="print the version, and end")
    nouns = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in dict.fromkeys(NOUNS.values() if noun is None else [NOUNS[noun]]):
        cast("_Noun", import_module(f"edgeagent.cli.{module}")).add_to(nouns)
    return top


def _run(typed: Sequence[str]) -> int:
    options, operands = _lifted(typed)
    as_json, top = "--json" in options, parser(_noun(options))
    path, following = leaf(top, options)
    arguments = None
    try:
        arguments = _parsed(top, following, [*options, *operands])
        handler: Handler = arguments.handler
        return handler(arguments)
    except (AgentError, ValidationError) as why:
        return failure(why, path, arguments).tell(as_json=as_json)
    except SystemExit as end:
        # How argparse ends once it has printed the help.
        return end.code if isinstance(end.code, int) else 0


def _parsed(top: Parser, following: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Read the words.

    Raises:
        WordsError: they are none of ours.
    """
    if any(not _is_text(word) for word in words):
        raise WordsError("a word that is no text")
    try:
        arguments, strange = top.parse_known_args(words)
    except WordsError as why:
        mistyped = strange_options([top, following], words)
        if not mistyped:
            raise
        raise unknown_words([top, following], mistyped) from why
    except RejectedError as why:
        # A word that is to be an id and is none.
        raise WordsError(str(why)) from why
    if strange:
        raise unknown_words([top, following], strange)
    return arguments


def _lifted(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was typed, with the options that may stand anywhere before all else; and what is no option.

    People type them behind the noun as well. What stands behind ``--`` is no option, whatever it looks like.
    """
    end = typed.index("--") if "--" in typed else len(typed)
    first: list[str] = []
    others: list[str] = []
    for place, word in enumerate(typed[:end]):
        is_value = place > 0 and typed[place - 1] in _ANYWHERE_WITH_VALUE
        is_first = is_value or word in _ANYWHERE or word.partition("=")[0] in _ANYWHERE_WITH_VALUE
        (first if is_first else others).append(word)
    return [*first, *others], list(typed[end:])


def _noun(options: Sequence[str]) -> str | None:
    """The first word, where it is one of ours; None where help is wanted, or a guess at what was meant."""
    rest = iter(options)
    for word in rest:
        if word in _ANYWHERE_WITH_VALUE:
            next(rest, None)
        elif word not in _ANYWHERE and word.partition("=")[0] not in _ANYWHERE_WITH_VALUE:
            return word if word in NOUNS else None
    return None


def _give_up_printing() -> None:
    """Have what is left unsaid go nowhere: Python itself would say it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_text(word: str) -> bool:
    """Whether a word came as UTF-8; other bytes come as halves of characters (PEP 383)."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
