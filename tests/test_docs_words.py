"""What the pages have people type exists: nouns, verbs and options, in blocks of shell and in the text."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.cli.main import NOUNS, parser
from edgeagent.cli.parsing import Parser, leaf

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ["README.md", "SECURITY.md", *sorted(f"docs/{page.name}" for page in ROOT.glob("docs/*.md"))]
BLOCK: Final = re.compile(r"(?:<!-- (.*?) -->\n)?```(?:sh|bash)\n(.*?)```", re.DOTALL)
RUN_AS_A_WHOLE: Final = {
    "docs/connecting.md": "tests/systemd/test_own_broker.py",
    "docs/evidence.md": "tests/cli/test_evidence.py",
    "docs/protocol.md": "tests/test_protocol.py",
}
"""Pages of which a test runs every block of shell."""
ANYWHERE: Final = frozenset({"--json", "--utc", "--wide", "--config", "--color", "--version", "--help"})


def typed(page: str) -> Iterator[list[str]]:
    """The words behind ``edgeagent`` of all lines and code that a page shows."""
    text = (ROOT / page).read_text("utf-8")
    lines = [line for _, block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"^ {4}((?:sudo |[A-Z_]+=\S+ )*edgeagent .*)$", text, re.MULTILINE)
    lines += re.findall(r"`((?:sudo (?:-u \w+ )?)?edgeagent [^`\n]*)`", text)
    for line in lines:
        for part in re.split(r"\||&&|;", re.sub(r"\$\([^)]*\)", "X", line)):
            words = re.sub(r"^\s*(?:sudo (?:-u \w+ )?)?", "", part)
            if words.startswith("edgeagent "):
                yield _split(words)[1:]


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words, comments=True)
    except ValueError:
        return words.split()


@pytest.fixture(scope="module")
def top() -> Parser:
    return parser()


@pytest.mark.parametrize("page", PAGES)
def test_whatever_a_page_has_people_type_is_a_word_of_ours(page: str, top: Parser) -> None:
    wrong = []
    for words in typed(page):
        plain = [word for word in words if word not in ANYWHERE]
        if not plain or not re.fullmatch(r"[a-z][a-z-]*", plain[0]):
            continue
        understood, reader = leaf(top, plain)
        told = reader.format_help()
        rest = plain[len(understood) :]
        strange = [word for word in rest if re.match(r"--[a-z]", word) and word.split("=")[0] not in told]
        is_verb = bool(rest) and re.fullmatch(r"[a-z][a-z-]+", rest[0]) is not None
        if plain[0] not in NOUNS or strange or (reader.nouns is not None and is_verb):
            wrong.append((" ".join(words), strange))

    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_shell_says_who_runs_it_or_what_it_needs(page: str) -> None:
    """``<!-- tests/... runs these lines -->``, or ``<!-- needs ...: ... -->`` where no test of ours can."""
    unmarked = []
    for mark, block in BLOCK.findall((ROOT / page).read_text("utf-8")):
        runs = re.match(r"(tests/\S+\.py) runs th", mark)
        runner = runs[1] if runs else RUN_AS_A_WHOLE.get(page, "")
        text = (ROOT / runner).read_text("utf-8") if runner else ""
        is_run = page.rpartition("/")[2] in text or f'"{block.split()[0]}"' in text
        if not is_run and not mark.startswith("needs "):
            unmarked.append(block.splitlines()[0])

    assert unmarked == []
