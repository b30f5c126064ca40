"""``traceparent``: what of it is taken, and that everything else is as good as none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from edgeagent.contracts.traceparent import TraceparentText, read_traceparent

pytestmark = pytest.mark.requirement("O2")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        pytest.param(f"00-{TRACE}-{SPAN}-ff", True, id="flags of later versions"),
        pytest.param(f"01-{TRACE}-{SPAN}-01", True, id="a later version"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01-what-comes-later", True, id="a later version with more"),
    ],
)
def test_a_place_in_a_trace_is_read_and_written_in_version_00(text: str, *, sampled: bool) -> None:
    found = read_traceparent(text)

    assert found is not None
    assert str(found) == f"00-{TRACE}-{SPAN}-{'01' if sampled else '00'}"
    assert TypeAdapter(TraceparentText).validate_python(str(found)) == str(found)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        GOOD.upper(),
        f" {GOOD}",
        f"{GOOD}\n",
        f"{GOOD}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE[:-1]}\u0661-{SPAN}-01",
        pytest.param(f"01-{TRACE}-{SPAN}-01-{'x' * 1000}", id="too long"),
    ],
)
def test_what_is_malformed_is_as_good_as_none(text: str | None) -> None:
    assert read_traceparent(text) is None


@given(st.text(max_size=200))
def test_no_text_does_any_harm(text: str) -> None:
    found = read_traceparent(text)

    assert found is None or str(found)[3:52] == text[3:52]
