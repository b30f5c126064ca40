"""The verdict of ``./run``: true when the witnesses saw that all is well, false when a promise is broken."""

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import pytest
from typing_extensions import override

from firmware_sim.fields import Json
from firmware_sim.journal import Line, What
from firmware_sim.venue.evidence import FIRST_NUMBER, Event, Evidence, Stream
from firmware_sim.venue.listener import numbers
from firmware_sim.venue.telling import Teller
from firmware_sim.venue.verdict import (
    Asked,
    Statement,
    changed,
    done,
    each_ended_once,
    ended,
    nothing_else_done,
    readings_kept,
    stopped,
    verdict,
    whole,
)

BURST: Final = range(FIRST_NUMBER, FIRST_NUMBER + 4)
LAMP: Final = "02ED6E000001"
COMMAND: Final = "01a2-1"
NOTHING: Final[Mapping[str, Json]] = {}


def line(what: What, **details: Json) -> Line:
    """A line of the appliances' journal."""
    return Line(at=datetime(2026, 1, 1, tzinfo=UTC), number=1, appliance=LAMP, what=what, details=details)


def effect(action: str = "power", *, cause: str = "command", changes: bool = True) -> Line:
    """The lamp has done something."""
    return line(What.EFFECT, action=action, part="POWER", cause=cause, changed=changes)


def acknowledged(burst: range = BURST) -> Line:
    """The broker has acknowledged readings to their appliances."""
    return line(What.ACKNOWLEDGED, ranges=[[burst.start, burst.stop - 1]])


def event(
    number: int, kind: str, stream: Stream = Stream.RECORD, *, data: Mapping[str, Json] = NOTHING
) -> Event:
    """An event at the cloud."""
    return Event(id=f"venue/01a2/{stream}/{number}", type=kind, device=LAMP, data=data)


def receipt(
    number: int = 1, outcome: str = "succeeded", *, command: str = COMMAND, reason: str | None = None
) -> Event:
    """A receipt at the cloud."""
    data = {"command": command, "outcome": outcome, "reason": reason}
    return event(number, "command.receipt", data=data)


def seen(
    journal: Sequence[Line] = (),
    *,
    record: Sequence[Event] = (),
    stored: Sequence[int] = (),
    heard: Sequence[int] = (),
) -> Evidence:
    """What the witnesses saw."""
    evidence = Evidence(journal=journal)
    evidence.heard.update(heard)
    evidence.take(Stream.RECORD, record)
    telemetry = [
        event(place, "reading.telemetry", Stream.TELEMETRY, data={"readings": {"energy": float(number)}})
        for place, number in enumerate(stored, 1)
    ]
    evidence.take(Stream.TELEMETRY, telemetry)
    return evidence


def held(statements: Sequence[Statement]) -> list[bool | None]:
    """Which of them are true."""
    return [statement.holds for statement in statements]


@pytest.mark.requirement("Q1", "Q2")
class TestReadings:
    """Of a burst of numbered readings."""

    def test_readings_that_all_arrived_once_are_kept(self) -> None:
        evidence = seen([acknowledged()], stored=BURST, heard=BURST)

        said = readings_kept(evidence, BURST, doubles_can_be_told=True)

        assert held(said) == [True, True, True, True]

    def test_an_acknowledged_reading_that_the_cloud_lacks_is_found_out(self) -> None:
        evidence = seen([acknowledged()], stored=BURST[:-1], heard=BURST)

        said = readings_kept(evidence, BURST, doubles_can_be_told=True)

        assert held(said) == [True, True, False, True]
        assert str(BURST[-1]) in said[2].numbers

    def test_a_reading_that_nobody_acknowledged_need_not_be_at_the_cloud(self) -> None:
        evidence = seen([acknowledged(BURST[:-1])], stored=BURST[:-1], heard=BURST[:-1])

        said = readings_kept(evidence, BURST, doubles_can_be_told=True)

        assert held(said) == [False, True, True, True]

    def test_a_reading_that_is_stored_twice_is_found_out(self) -> None:
        evidence = seen([acknowledged()], stored=[*BURST, BURST[1]], heard=BURST)

        said = readings_kept(evidence, BURST, doubles_can_be_told=True)

        assert held(said) == [True, True, True, False]

    def test_doubles_are_not_judged_where_the_broker_does_not_mark_what_it_sends_again(self) -> None:
        evidence = seen([acknowledged()], stored=[*BURST, BURST[1]], heard=BURST)

        said = readings_kept(evidence, BURST, doubles_can_be_told=False)

        assert held(said) == [True, True, True, None]
        assert "not judged" in said[3].numbers

    def test_an_appliance_that_nobody_else_heard_is_found_out(self) -> None:
        evidence = seen([acknowledged()], stored=BURST, heard=BURST[1:])

        said = readings_kept(evidence, BURST, doubles_can_be_told=True)

        assert held(said) == [True, False, True, True]

    @pytest.mark.parametrize(
        ("payload", "expected"),
        [
            pytest.param({"ENERGY": {"Total": FIRST_NUMBER, "Power": 3}}, [FIRST_NUMBER], id="tasmota"),
            pytest.param(
                {
                    "method": "NotifyStatus",
                    "params": {"ts": 1.5, "switch:0": {"aenergy": {"total": FIRST_NUMBER * 1000}}},
                },
                [FIRST_NUMBER],
                id="shelly, in watt-hours",
            ),
            pytest.param({"ENERGY": {"Total": 0.4}}, [], id="what the meter shows by itself"),
            pytest.param(
                {"method": "NotifyStatus", "params": {"switch:0": {"aenergy": None}}}, [], id="none"
            ),
            pytest.param([], [], id="no object"),
        ],
    )
    def test_the_listener_reads_the_number_of_a_reading(self, payload: Json, expected: list[int]) -> None:
        assert numbers(json.dumps(payload).encode()) == expected

    def test_the_listener_takes_any_bytes(self) -> None:
        assert numbers(b"\xff{") == []
        assert numbers(b"[" * 100_000) == []


class TestCommands:
    """What became of a command."""

    @pytest.mark.requirement("T4")
    def test_a_second_effect_is_found_out(self) -> None:
        once, twice = seen([effect()]), seen([effect(), effect()])

        assert done(once, LAMP, "power", times=1, name="Lamp").holds is True
        assert done(twice, LAMP, "power", times=1, name="Lamp").holds is False

    def test_an_effect_that_was_not_to_be_is_found_out(self) -> None:
        assert done(seen(), LAMP, "power", times=0, name="Lamp").holds is True
        assert done(seen([effect()]), LAMP, "power", times=0, name="Lamp").holds is False

    def test_a_pressed_button_is_no_effect_of_a_command(self) -> None:
        evidence = seen([effect("toggle", cause="button")])

        assert done(evidence, LAMP, "toggle", times=0, name="Lamp").holds is True

    @pytest.mark.requirement("I3")
    def test_what_may_be_sent_again_counts_by_what_it_changed(self) -> None:
        again = seen([effect(), effect(changes=False)])
        wrong = seen([effect(), effect()])

        assert changed(again, LAMP, "power", times=1, name="Lamp").holds is True
        assert changed(wrong, LAMP, "power", times=1, name="Lamp").holds is False

    @pytest.mark.parametrize(
        ("record", "holds"),
        [
            pytest.param([receipt(outcome="refused", reason="stale")], True, id="as it should"),
            pytest.param([], False, id="no receipt"),
            pytest.param([receipt(outcome="succeeded")], False, id="another outcome"),
            pytest.param([receipt(outcome="refused", reason="expired")], False, id="another reason"),
            pytest.param([receipt(1, "refused", reason="stale")] * 2, False, id="two receipts"),
            pytest.param([receipt(outcome="refused", command="01a2-2")], False, id="of another command"),
        ],
    )
    def test_an_end_is_what_the_one_receipt_says(self, record: list[Event], holds: bool) -> None:  # noqa: FBT001 - a column
        evidence = seen(record=record)

        assert ended(evidence, COMMAND, outcomes=["refused"], reason="stale").holds is holds


class TestWhole:
    """Over all chapters."""

    @pytest.mark.requirement("U1")
    def test_a_hole_in_the_record_is_found_out(self) -> None:
        good = seen(record=[event(1, "hub.hello"), event(2, "device.admitted")])
        bad = seen(record=[event(1, "hub.hello"), event(3, "device.admitted")])

        assert held(whole(good)) == [True, True]
        assert held(whole(bad)) == [False, True]
        assert held(whole(seen())) == [False, True]

    @pytest.mark.requirement("U1")
    def test_two_events_of_one_id_are_found_out(self) -> None:
        evidence = seen(record=[event(1, "hub.hello"), event(1, "hub.hello")])

        assert held(whole(evidence)) == [True, False]

    @pytest.mark.parametrize(
        ("record", "holds"),
        [
            pytest.param([receipt()], True, id="one end"),
            pytest.param([], False, id="no end"),
            pytest.param([receipt(1), receipt(2, "unknown")], False, id="two ends"),
            pytest.param([receipt(1), receipt(2, command="01a2-9")], False, id="one that nobody gave"),
        ],
    )
    def test_every_command_has_one_end_and_no_other_has_any(self, record: list[Event], holds: bool) -> None:  # noqa: FBT001 - a column
        asked = Asked(commands=[COMMAND])

        assert each_ended_once(seen(record=record), asked).holds is holds

    def test_what_nobody_asked_for_and_what_was_left_undone_are_found_out(self) -> None:
        asked = Asked()
        asked.changes[LAMP, "power"] = 1

        assert nothing_else_done(seen([effect()]), asked).holds is True
        assert nothing_else_done(seen([effect(), effect("color")]), asked).holds is False
        assert nothing_else_done(seen(), asked).holds is False

    def test_one_false_statement_spoils_the_verdict_and_an_unjudged_one_does_not(self) -> None:
        true, false, unjudged = (Statement("So.", "1 of 1", holds) for holds in (True, False, None))

        assert verdict([true, unjudged])
        assert not verdict([true, false])
        assert not verdict([])


class _Terminal(io.StringIO):
    """A terminal that remembers."""

    @override
    def isatty(self) -> bool:
        return True


class TestTelling:
    """How it is told."""

    def test_without_a_terminal_there_are_plain_lines_and_no_colour(self) -> None:
        out = io.StringIO()
        teller = Teller(out)

        teller.counts("1 receipt")
        teller.counts("2 receipts")
        teller.settle()
        teller.statement(Statement("So.", "0 of 1", holds=False))

        assert out.getvalue() == "   2 receipts\n   FALSE  So.  [0 of 1]\n"

    def test_on_a_terminal_the_counts_move_in_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        out = _Terminal()
        teller = Teller(out)

        teller.counts("1 receipt")
        teller.counts("2 receipts")
        teller.statement(Statement("So.", "0 of 1", holds=False))

        assert out.getvalue().count("\n") == 1
        assert out.getvalue().count("\r") == 3
        assert "\x1b[31mFALSE\x1b[0m" in out.getvalue()


@pytest.mark.requirement("B4", "B5")
@pytest.mark.parametrize(
    ("alerts", "holds"),
    [
        pytest.param([], False, id="no alert"),
        pytest.param([{"origin": "a", "signal": "invalid"}], True, id="the one that was to be"),
        pytest.param([{"origin": "b", "signal": "invalid"}], False, id="somebody else is stopped"),
        pytest.param([{"origin": "a", "signal": "by_hand"}], False, id="for another cause"),
        pytest.param([{"origin": "a", "signal": "invalid"}] * 2, False, id="twice"),
    ],
)
def test_that_an_action_is_stopped_is_told_by_one_alert_of_its_origin(
    alerts: list[dict[str, Json]], *, holds: bool
) -> None:
    record = [
        event(number, "alert", data={"reason": "breaker_open", "action": "install", **alert})
        for number, alert in enumerate(alerts, 1)
    ]

    assert stopped(seen(record=record), "install", "a", signal="invalid").holds is holds


def test_what_a_program_printed_is_shown_as_far_as_there_is_room() -> None:
    out = io.StringIO()

    Teller(out).quote(f"short   \n{'x' * 400}\n")

    first, second = out.getvalue().splitlines()
    assert first == "     short"
    assert len(second) <= 160
    assert second.endswith("x…")
