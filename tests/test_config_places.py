"""Where the keys of a TOML text stand, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.config_places import Steps, places_of

pytestmark = pytest.mark.requirement("H4")

TEXT = '''# a comment with [brackets] and key = 1
title = "x" # [not.a.section]

[hub]
id = """
[broker]
port = 1
"""
name = 'it is # no comment'

[ broker . "tls" ]
ca = [ "a", # first
  "b", { inner = [ 1,
    2 ] } ]
at = 1979-05-27 07:32:00

[[rule]]
when = "now"
[[rule.step]]
wait = 1
[[rule.step]]
wait = 2
[[rule]]
[rule.limits]
most = { of = { each = 3 } }

[dotted]
a.b."c d" = 1
a.e = 2
'''


@pytest.mark.parametrize(
    ("steps", "line", "column"),
    [
        (("title",), 2, 1),
        (("hub",), 4, 1),
        (("hub", "id"), 5, 1),
        (("hub", "name"), 9, 1),
        (("broker",), 11, 1),
        (("broker", "tls"), 11, 1),
        (("broker", "tls", "ca"), 12, 1),
        (("broker", "tls", "ca", 0), 12, 8),
        (("broker", "tls", "ca", 1), 13, 3),
        (("broker", "tls", "ca", 2, "inner"), 13, 10),
        (("broker", "tls", "ca", 2, "inner", 1), 14, 5),
        (("broker", "tls", "at"), 15, 1),
        (("rule", 0), 17, 1),
        (("rule", 0, "when"), 18, 1),
        (("rule", 0, "step", 1, "wait"), 22, 1),
        (("rule", 1), 23, 1),
        (("rule", 1, "limits", "most"), 25, 1),
        (("rule", 1, "limits", "most", "of", "each"), 25, 17),
        (("dotted", "a", "b", "c d"), 28, 1),
        (("dotted", "a", "e"), 29, 1),
        (("dotted", "a", "missing"), 28, 1),
        (("rule", 1, "limits", "missing"), 24, 1),
        (("nowhere",), 1, 1),
    ],
)
def test_a_key_is_found_where_it_stands_or_its_section(steps: Steps, line: int, column: int) -> None:
    for text in (TEXT, TEXT.replace("\n", "\r\n")):
        place = places_of(text).find(steps)

        assert (place.line, place.column) == (line, column)


@given(st.text(alphabet="[]{}=.\"'#\\\n ab1,", max_size=80))
def test_no_text_does_more_than_be_looked_through(text: str) -> None:
    places_of(text).find(("a", "b"))
