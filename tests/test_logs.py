"""Logs: one JSON object a line, whatever the text; nothing that a terminal would act on (SPEC O3, V5)."""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.logs import JsonFormatter

pytestmark = pytest.mark.requirement("O3", "V5")


def line(
    message: str = "device left out",
    fields: Mapping[str, object] | None = None,
    *,
    error: BaseException | None = None,
) -> str:
    """The line of a record with these fields."""
    record = logging.makeLogRecord(
        {
            "name": "edgeagent.flows.devices",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": message,
        }
        | dict(fields or {})
    )
    record.exc_info = None if error is None else (type(error), error, error.__traceback__)
    return JsonFormatter().format(record)


def test_a_line_says_when_what_how_bad_and_from_where() -> None:
    fields = json.loads(line(fields={"device": "dev-1", "why": "no profile"}))

    assert fields["level"] == "warning"
    assert fields["event"] == "device left out"
    assert fields["logger"] == "edgeagent.flows.devices"
    assert (fields["device"], fields["why"]) == ("dev-1", "no profile")
    assert datetime.fromisoformat(fields["time"]).tzinfo == UTC


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param('two\nlines"} {"level": "error', id="a line of its own"),
        pytest.param("\r\x1b[2J\x1b]0;title\x07", id="a terminal's commands"),
        pytest.param("\u202egnp.exe\u2066", id="a text that reads backwards"),
        pytest.param("\x7f\x9b31m\u2028\u2029", id="other control characters"),
        pytest.param("half a pair \udc80", id="half a surrogate pair"),
        pytest.param("\0", id="NUL"),
    ],
)
@pytest.mark.parametrize("where", ["field", "name", "message", "error"])
def test_no_text_can_write_a_line_of_its_own_or_paint_a_screen(harm: str, where: str) -> None:
    match where:
        case "field":
            text = line(fields={"device": harm})
        case "name":
            text = line(fields={harm: "x"})
        case "message":
            text = line(harm)
        case _:
            text = line(error=ValueError(harm))

    assert text.isascii()
    assert text.isprintable()
    json.loads(text)


@given(st.text(), st.text())
def test_whatever_is_logged_comes_back_as_it_was(message: str, value: str) -> None:
    text = line(message, {"device": value})

    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["event"] == message
    assert json.loads(text)["device"] == value


def test_a_value_that_is_no_json_is_shown_as_text() -> None:
    assert (
        json.loads(line(fields={"at": datetime(2027, 1, 1, tzinfo=UTC)}))["at"] == "2027-01-01 00:00:00+00:00"
    )


def test_an_error_with_its_traceback_is_one_line() -> None:
    try:
        raise ValueError("no good")  # noqa: TRY301 - a traceback needs a raise
    except ValueError as why:
        text = line(error=why)

    assert "Traceback" in json.loads(text)["exception"]
    assert "\n" not in text


def test_the_agent_logs_on_standard_error_from_its_level_and_libraries_from_warning() -> None:
    program = (
        "import logging; from edgeagent.logs import set_up; set_up('info');"
        "logging.getLogger('edgeagent.flows').info('ours');"
        "logging.getLogger('edgeagent.flows').debug('too little');"
        "logging.getLogger('aiohttp.server').info('theirs');"
        "logging.getLogger('aiohttp.server').warning('their trouble')"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert [json.loads(text)["event"] for text in done.stderr.splitlines()] == ["ours", "their trouble"]
    assert done.stdout == ""
