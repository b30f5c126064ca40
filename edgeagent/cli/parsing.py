"""The words of a command line: taken whole, guessed at when they are nearly right, never printed raw."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from typing_extensions import override

from edgeagent.cli.failing import WordsError
from edgeagent.cli.guessing import did_you_mean
from edgeagent.cli.words import Nouns

_OPTION = re.compile(r"--[a-z][a-z-]+")


class Parser(argparse.ArgumentParser):
    """Reads words as argparse does, but takes no half words, and says what may have been meant.

    Attributes:
        nouns: the words of which one has to follow; None where none has.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - argparse's own, passed on
        super().__init__(**settings, allow_abbrev=False)
        self.nouns: Nouns | None = None

    @override
    def add_subparsers(self, **settings: Any) -> Nouns:  # type: ignore[override]
        self.nouns = super().add_subparsers(**settings)
        return self.nouns

    @override
    def _check_value(self, action: argparse.Action, value: object) -> None:
        # argparse lists every choice there is; the nearest one is what helps.
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        listed = f" ({', '.join(known)})" if self.nouns is not action else ""
        what = action.option_strings[0] if action.option_strings else str(action.metavar or "word").lower()
        told = f"there is no {what} {str(value)[:40]!r}{did_you_mean(str(value), known) or listed}"
        raise argparse.ArgumentError(None, told)

    @override
    def error(self, message: str) -> NoReturn:
        """Refuse the words.

        Raises:
            WordsError: always.
        """
        raise WordsError(message, self.format_usage())


def leaf(parser: Parser, typed: Sequence[str]) -> tuple[list[str], Parser]:
    """The nouns and verbs at the beginning of what was typed, and the parser of what follows them."""
    path: list[str] = []
    for word in typed:
        if parser.nouns is None or word not in parser.nouns.choices:
            # Options may stand between them, and what belongs to options.
            continue
        path.append(word)
        following = parser.nouns.choices[word]
        if not isinstance(following, Parser):
            break
        parser = following
    return path, parser


def unknown_words(parsers: Sequence[Parser], strange: Sequence[str]) -> WordsError:
    """What is to be said of words for which there is no place in these; the last is what was meant."""
    known = [word for parser in parsers for word in _OPTION.findall(parser.format_help())]
    words = ", ".join(f"{word[:40]!r}" for word in strange)
    near = did_you_mean(strange[0].partition("=")[0], known) if strange[0].startswith("-") else ""
    return WordsError(f"there is no place for {words}{near}", parsers[-1].format_usage())
