"""Events are what ``docs/events.schema.json`` says."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.alerts import Alert, AlertTurn
from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.event import EventType, Stream, render
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, Receipt, StateMark
from edgeagent.core.breaker import Signal
from edgeagent.ids import hub_id
from tests.issuer.building import EPOCH, hello, order, receipt, receipt_event, state, stored

if TYPE_CHECKING:
    # Reading it takes seconds, and each process that collects the tests would read it.
    from jsonschema import Draft202012Validator

SCHEMA: Final = json.loads((Path(__file__).parents[2] / "docs" / "events.schema.json").read_text("utf-8"))
HUB: Final = hub_id("venue-7")


@cache
def validator() -> "Draft202012Validator":
    """What holds events against the document."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)


EXAMPLES: Final[Mapping[EventType, dict[str, JsonValue]]] = {
    EventType.HUB_HELLO: {
        "version": "0.1.0",
        "boot": "3c1e",
        "key": "0" * 64,
        "reason": "restored",
        "previous": EPOCH,
    },
    EventType.DEVICE_ADMITTED: {"label": "TV in the bar", "profile": "tasmota", "actions": ["power"]},
    EventType.DEVICE_FORGOTTEN: {},
    EventType.STATE: {
        "version": 8,
        "etag": "0" * 16,
        "readings": {"power.2": {"value": True, "version": 8, "retained": True}},
    },
    EventType.TELEMETRY: {
        "readings": {"temperature.si7021": 21.5, "fw": "14.2", "seq": 7},
        "retained": True,
    },
    EventType.CORRECTED: {"command": "c1", "device": "tv-1", "level": "applied"},
    EventType.REFUSED: {"command": "c1", "reason": "id_conflict", "detail": "", "issuer": "0" * 64},
    EventType.REVALIDATED: {
        "command": "c1",
        "version": 9,
        "etag": "0" * 16,
        "live": False,
        "readings": {"power": {"value": True, "version": 9, "live": False}},
        "reason": "no_confirmation",
    },
    EventType.STOPPED: {
        "order": "o1",
        "payload_sha256": "0" * 64,
        "kind": "tier:high",
        "by": "0" * 64,
        "why": "smoke",
        "refused": 2,
    },
    EventType.RESUMED: {"kind": "all", "by": "uid:0 root", "why": "", "refused": 0},
    EventType.DRILLED: {
        "drill": "dead-letter",
        "outcome": "failed",
        "milliseconds": 900,
        "checks": 3,
        "why": "it became a dead letter: expected so; seen otherwise",
    },
    EventType.CHECKPOINT: {
        "type": "checkpoint",
        "hub": "venue-7",
        "epoch": "0" * 20,
        "audit": {"number": 12, "hash": "0" * 64},
        "at": "2026-12-01T12:00:00Z",
        "clock": "kernel",
        "proof": {
            "payload": "e30=",
            "payloadType": "application/vnd.edgeagent.checkpoint.v1+json",
            "signatures": [{"keyid": "0" * 64, "sig": "AA=="}],
        },
    },
    EventType.GAP: {"cause": "coalesced", "readings": ["power"], "changes": 3},
    EventType.ALERT: {"reason": "retained_command", "topic": "'cmnd/tv/POWER'"},
}


def event(kind: EventType, data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = json.loads(render(HUB, EPOCH, Stream.RECORD, stored(1, kind, data)))
    return value


@pytest.mark.requirement("U8")
def test_the_schema_is_one_and_knows_every_type_of_event() -> None:
    validator().check_schema(SCHEMA)

    assert set(SCHEMA["$defs"]["event"]["properties"]["type"]["enum"]) == {str(kind) for kind in EventType}
    assert {*EXAMPLES, EventType.RECEIPT} == set(EventType)
    conditions = [SCHEMA["$defs"][rule["if"]["$ref"].rpartition("/")[2]] for rule in SCHEMA["allOf"]]
    assert {one["properties"]["type"]["const"] for one in conditions} == {str(kind) for kind in EventType}


@pytest.mark.requirement("U8")
@pytest.mark.parametrize("kind", EXAMPLES, ids=str)
def test_an_event_as_the_agent_writes_it_fits(kind: EventType) -> None:
    validator().validate(event(kind, EXAMPLES[kind]))


@pytest.mark.requirement("U8", "O4")
@pytest.mark.parametrize(
    "told",
    [
        {"reason": "retry_threshold", "command": "c-1", "attempts": 3, "error": "nobody listens"},
        {"reason": "lease_lost", "command": "c-1", "losses": 3},
        {"reason": "rollout_stopped", "command": "c-1", "words": "2 of its devices ended badly"},
        {
            "reason": "breaker_open",
            "action": "install",
            "origin": "0" * 64,
            "signal": "invalid",
            "why": "5 times",
            "open_for_ms": 300_000,
        },
    ],
)
def test_an_alert_about_a_command_fits(told: dict[str, JsonValue]) -> None:
    validator().validate(event(EventType.ALERT, told))


@pytest.mark.requirement("U8", "O4")
@pytest.mark.parametrize("turn", AlertTurn, ids=str)
def test_an_alert_of_the_hubs_own_fits_in_each_of_its_turns(turn: AlertTurn) -> None:
    told: dict[str, JsonValue] = {
        "reason": Alert.DISK_LOW,
        "turn": turn,
        "since": "2026-12-01T12:00:00Z",
        "level": "warning",
        "words": "100 MiB free",
    }

    validator().validate(event(EventType.ALERT, told))
    assert not validator().is_valid(event(EventType.ALERT, told | {"turn": "over"}))


@pytest.mark.requirement("U8", "B1")
def test_the_schema_knows_what_a_breaker_counts() -> None:
    assert set(SCHEMA["$defs"]["alert"]["properties"]["signal"]["enum"]) == {str(signal) for signal in Signal}


@pytest.mark.requirement("U8", "T9")
def test_refusals_that_were_counted_fit_and_such_that_are_neither_do_not() -> None:
    sample: dict[str, JsonValue] = {"sha256": "0" * 64, "bytes": 900}
    counted: dict[str, JsonValue] = {"reason": "bad_signature", "count": 7, "samples": [sample]}
    replayed = counted | {"issuer": "1" * 64, "samples": [sample | {"command": "c1"}]}

    for good in (counted, replayed):
        validator().validate(event(EventType.REFUSED, good))
    neither: dict[str, JsonValue] = {"reason": "malformed"}
    for bad in (neither, counted | {"command": "c1"}, counted | {"samples": [sample] * 4}):
        assert not validator().is_valid(event(EventType.REFUSED, bad))


@pytest.mark.requirement("U8")
def test_our_builders_events_fit() -> None:
    for built in (hello(), state(2, 7, power=True), receipt_event(3, order(HUB))):
        validator().validate(json.loads(render(HUB, EPOCH, Stream.RECORD, built)))


@pytest.mark.requirement("U8", "A4")
@pytest.mark.parametrize("outcome", Outcome, ids=str)
def test_every_receipt_fits(outcome: Outcome) -> None:
    whole = receipt(order(HUB), outcome=outcome).model_copy(
        update={
            "reason": Reason.NO_CONFIRMATION,
            "detail": "busy",
            "level": Level.VERIFIED,
            "before": StateMark(version=1, etag="0" * 16),
            "after": StateMark(version=2, etag="1" * 16),
        }
    )

    for told in (whole, receipt(order(HUB), outcome=outcome)):
        validator().validate(event(EventType.RECEIPT, told.model_dump(mode="json", exclude_none=True)))


@pytest.mark.requirement("U8", "A4")
def test_the_schemas_receipt_is_the_contracts() -> None:
    described = SCHEMA["$defs"]["receipt"]

    assert described["properties"].keys() == Receipt.model_fields.keys()
    optional = {name for name, one in Receipt.model_fields.items() if one.default is None}
    assert set(described["required"]) == Receipt.model_fields.keys() - optional
    assert set(described["properties"]["outcome"]["enum"]) == {str(outcome) for outcome in Outcome}
    assert all(validator().evolve(schema=SCHEMA["$defs"]["action"]).is_valid(action) for action in ActionName)
    assert all(validator().evolve(schema=SCHEMA["$defs"]["code"]).is_valid(reason) for reason in Reason)


@pytest.mark.requirement("U8", "A3")
def test_the_schemas_checkpoint_is_the_contracts() -> None:
    described = SCHEMA["$defs"]["checkpoint"]

    assert described["properties"].keys() == Checkpoint.model_fields.keys()
    optional = {name for name, one in Checkpoint.model_fields.items() if one.default is None}
    assert set(described["required"]) == Checkpoint.model_fields.keys() - optional


@pytest.mark.requirement("U8")
@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        pytest.param(EventType.STATE, {"etag": "x"}, id="no etag"),
        pytest.param(EventType.STATE, {"readings": {}}, id="no reading"),
        pytest.param(EventType.STATE, {"readings": {"power": True}}, id="a value without its version"),
        pytest.param(EventType.STATE, {"surprise": 1}, id="an unknown field"),
        pytest.param(EventType.TELEMETRY, {"readings": {"a/b": 1}}, id="no reading's name"),
        pytest.param(EventType.TELEMETRY, {"readings": {"a": None}}, id="no value"),
        pytest.param(EventType.DEVICE_ADMITTED, {"label": ""}, id="no label"),
        pytest.param(EventType.GAP, {"changes": 0}, id="a gap of nothing"),
        pytest.param(EventType.STOPPED, {"kind": "everything"}, id="no kind"),
        pytest.param(EventType.DRILLED, {"outcome": "so so"}, id="no end of a drill"),
        pytest.param(EventType.ALERT, {"reason": "Oh No"}, id="no code"),
        pytest.param(EventType.CORRECTED, {"level": "surely"}, id="no level"),
    ],
)
def test_an_event_with_other_data_does_not_fit(kind: EventType, spoil: dict[str, JsonValue]) -> None:
    assert not validator().is_valid(event(kind, EXAMPLES[kind] | spoil))


@pytest.mark.requirement("U8")
@pytest.mark.parametrize(
    "spoil",
    [
        {"specversion": "2.0"},
        {"id": "venue-7/record/1"},
        {"source": "venue-7"},
        {"type": "edgeagent.unheard.of"},
        {"subject": "a/b"},
        {"time": "yesterday"},
        {"timequality": "unknown"},
        {"boottime": -1},
        {"incarnation": 0},
        {"surprise": 1},
    ],
    ids=str,
)
def test_an_event_with_another_envelope_does_not_fit(spoil: dict[str, JsonValue]) -> None:
    good = event(EventType.ALERT, EXAMPLES[EventType.ALERT])
    assert validator().is_valid(good)

    assert not validator().is_valid(good | spoil)
