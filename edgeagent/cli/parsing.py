"""The words of a command line: taken whole, guessed at when they are nearly right, never printed raw."""

import argparse
import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from typing_extensions import override

from edgeagent.cli.failing import WordsError
from edgeagent.cli.guessing import did_you_mean
from edgeagent.cli.words import Nouns

_OPTION = re.compile(r"--[a-z][a-z-]+")
_CODE = re.compile(r"\W*EA[1I]\W*\w{8}", re.IGNORECASE)


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
        near = did_you_mean(str(value), known) or listed
        if _is_secret(str(value)) and "--claim" in self.format_usage():
            near = "; a claim code goes behind --claim"
        raise argparse.ArgumentError(None, f"there is no {what} {_quoted(str(value))}{near}")

    @override
    def error(self, message: str) -> NoReturn:
        """Refuse the words.

        Raises:
            WordsError: always.
        """
        raise WordsError(message, self.format_usage())


class VersionAction(argparse.Action):
    """Prints which edgeagent this is, and ends; needs no noun."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002 - argparse's
        super().__init__(option_strings, dest, nargs=0, help=help)

    @override
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,
    ) -> None:
        from importlib.metadata import version

        own = version("edgeagent")
        print(json.dumps({"version": own}) if namespace.json else f"edgeagent {own}")
        parser.exit()


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


def strange_options(parsers: Sequence[Parser], typed: Sequence[str]) -> list[str]:
    """The options among what was typed that these do not have; none where a noun or a verb is still to come.

    argparse looks for a place for what stands behind such a one, and complains of that.
    """
    if parsers[-1].nouns is not None:
        return []
    known, words = _options_of(parsers), typed[: typed.index("--")] if "--" in typed else typed
    return [word for word in words if _OPTION.match(word) and word.partition("=")[0] not in known]


def unknown_words(parsers: Sequence[Parser], strange: Sequence[str]) -> WordsError:
    """What is to be said of words for which there is no place in these; the last is what was meant."""
    near = ""
    if strange[0].startswith("-"):
        # What stands behind an option may be its value, and a secret.
        strange = [word.partition("=")[0] for word in strange if word.startswith("-")]
        near = did_you_mean(strange[0], _options_of(parsers))
    words = ", ".join(_quoted(word) for word in strange)
    return WordsError(f"there is no place for {words}{near}", parsers[-1].format_usage())


def _options_of(parsers: Sequence[Parser]) -> set[str]:
    return {word for parser in parsers for word in _OPTION.findall(parser.format_help())}


def _quoted(word: str) -> str:
    """A word for people; of one that lets somebody in only what it is."""
    return "'EA1-...'" if _is_secret(word) else repr(word[:40])


def _is_secret(word: str) -> bool:
    """Whether it may be a claim code (contracts/claim), whose first letters are its secret."""
    return _CODE.match(word) is not None
