"""What passes the door means the same to other parsers: Node, SQLite, pydantic, first or last of twins."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode, parse
from edgeagent.errors import MalformedError
from tests.vectors.making import payload

pytestmark = pytest.mark.requirement("T1", "M6")

LIMIT: Final = 64 * 1024
_EXACT: Final = 2**53

CORPUS: Final = (
    b"null",
    b" \t\r\n[ ]\n",
    b"-0",
    b"-0.0",
    b"0e0",
    b"1E+2",
    b"1e-307",
    b"0.1",
    b"1.7976931348623157e308",
    b"5e-324",
    b"9007199254740991",
    b"-9007199254740991",
    b"3.141592653589793238462643383279",
    b'"\\u0000"',
    b'"\\/\\b\\f\\n\\r\\t\\\\\\""',
    b'"\\u00e9\\u20ac"',
    b'"\\ud83d\\ude00"',
    b'"\\uD83D\\uDE00"',
    "\u2028\u2029".join('""').encode(),
    '"e\u0301 \u00e9"'.encode(),
    '{"e\u0301":1,"\u00e9":2}'.encode(),
    '"\U0010ffff\ufffe"'.encode(),
    b'"\x7f"',
    b'{"":{"":[{}]}}',
    b'{"__proto__":{"a":1},"constructor":2,"toString":null}',
    b'{"a":1,"A":2,"a ":3}',
    b'{"10":1,"9":2,"a":3,"1":4}',
    b"[" * 16 + b"]" * 16,
    b'{"a":[true,false,null,0,"",{},[]]}',
    b'["[[[[[[[[[[[[[[[[[[[[","}}}}}}}}"]',
)
"""Texts at the edge of what passes. Numbers stay below 2^53: beyond it Node has others."""


def test_every_text_of_the_corpus_passes() -> None:
    for raw in CORPUS:
        parse(raw, limit=LIMIT)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_reads_the_corpus_as_the_door_does() -> None:
    program = (
        "const lines = require('fs').readFileSync(0, 'utf-8').trimEnd().split('\\n');"
        "console.log(JSON.stringify(lines.map(line => JSON.parse(JSON.parse(line)))))"
    )
    given = "\n".join(json.dumps(raw.decode()) for raw in CORPUS)

    told = subprocess.run(["node", "-e", program], input=given, capture_output=True, text=True, check=True)

    theirs = json.loads(told.stdout)
    assert [_plain(value) for value in theirs] == [_plain(parse(raw, limit=LIMIT)) for raw in CORPUS]


def _plain(value: JsonValue) -> object:
    """A value in which 1 and 1.0 are the same, as they are to JavaScript."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


@pytest.mark.parametrize("raw", CORPUS, ids=ascii)
def test_sqlite_takes_what_the_door_takes(raw: bytes) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        [[valid]] = connection.execute("SELECT json_valid(?)", (raw.decode(),))

    assert valid == 1


def twice(*, first: bool) -> json.JSONDecoder:
    """A parser that keeps the first, or the last, of two fields with one name, and any number."""

    def one_of(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        return dict(reversed(pairs)) if first else dict(pairs)

    return json.JSONDecoder(object_pairs_hook=one_of, parse_float=Decimal, strict=False)


PIECES: Final = (
    '"action":"toggle",',
    '"acti\\u006fn":"toggle",',
    '"hub":"venue-8",',
    '"arguments":{"on":false},',
    '"on":false,',
    '"x":1,',
    "\\u0000",
    "\ufeff",
    "\u200b",
    "/**/",
    "NaN",
    "e5",
    ".0",
    "-",
    "0",
    "9" * 30,
    "{",
    "}",
    "[",
    "]",
    ",",
    '"',
    "\\",
    " ",
    "\n",
    "\x00",
    "true",
    "null",
)


@given(
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(PIECES)), max_size=3)
)
def test_a_command_that_passes_is_the_same_to_whoever_verifies_and_whoever_executes(
    edits: list[tuple[int, int, str]],
) -> None:
    text = payload().decode()
    for place, removed, piece in edits:
        text = text[:place] + piece + text[place + removed :]
    raw = text.encode()

    try:
        command = decode(Command, raw, limit=COMMAND_BYTES)
    except MalformedError:
        return

    assert Command.model_validate_json(raw) == command
    assert twice(first=True).decode(text) == twice(first=False).decode(text)
    assert command.action == twice(first=True).decode(text)["action"]
