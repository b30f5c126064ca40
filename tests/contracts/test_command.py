"""A command: everything that it is bound to, and nothing besides."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode, encode
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("V1", "T3")


def fields_of(**changed: JsonValue) -> dict[str, JsonValue]:
    """An ordinary command with some fields changed; ``None`` leaves one out."""
    fields: dict[str, JsonValue] = {
        "type": "command",
        "id": "c-1",
        "hub": "hub-1",
        "epoch": "0192f0c0aabb00000001",
        "devices": ["A4CF12D3"],
        "action": "power",
        "arguments": {"on": True},
        "operation": "ticket:4711",
        "sequence": 1,
        "issued_at": "2027-03-01T12:00:00Z",
        "expires_at": "2027-03-01T12:05:00Z",
        "precondition": {"version": 3, "etag": "0123456789abcdef", "readings": {"power": 3}},
    }
    return {name: value for name, value in (fields | changed).items() if value is not None}


def read(fields: dict[str, JsonValue]) -> Command:
    """What the door makes of these fields."""
    return decode(Command, json.dumps(fields).encode(), limit=COMMAND_BYTES)


def test_an_ordinary_command_comes_back_as_it_was_written() -> None:
    command = read(fields_of())

    assert decode(Command, encode(command), limit=COMMAND_BYTES) == command


def test_a_command_needs_neither_arguments_nor_a_precondition() -> None:
    command = read(fields_of(action="reboot", arguments=None, precondition=None))

    assert command.arguments == {}
    assert command.precondition is None


@pytest.mark.parametrize(
    "field",
    ["id", "hub", "epoch", "devices", "action", "operation", "sequence", "issued_at", "expires_at"],
)
def test_a_command_that_is_not_bound_to_all_of_it_is_refused(field: str) -> None:
    with pytest.raises(MalformedError, match=rf"^{field}: Field required"):
        read(fields_of(**{field: None}))


@pytest.mark.parametrize(
    "field", ["command", "script", "override", "topic", "payload", "url", "path", "tier"]
)
def test_a_free_field_cannot_be_expressed(field: str) -> None:
    with pytest.raises(MalformedError, match=rf"^{field}: Extra inputs"):
        read(fields_of(**{field: "x"}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("type", "policy", id="another kind of document"),
        pytest.param("action", "POWER", id="an action in capitals"),
        pytest.param("action", "shell", id="an action that there is not"),
        pytest.param("hub", "hub/1", id="a separator in the hub"),
        pytest.param("devices", ["+"], id="a wildcard for a device"),
        pytest.param("devices", "A4CF12D3", id="a device without a list"),
        pytest.param("devices", [], id="no device"),
        pytest.param("devices", [f"tv-{n}" for n in range(257)], id="257 devices"),
        pytest.param("devices", ["tv-1", "tv-1"], id="a device twice"),
        pytest.param("epoch", "1", id="a short epoch"),
        pytest.param("sequence", 0, id="no sequence"),
        pytest.param("sequence", "1", id="a sequence as text"),
        pytest.param("sequence", 1.0, id="a sequence with a fraction"),
        pytest.param("operation", "", id="no operation"),
        pytest.param("operation", "a b", id="a space in the operation"),
        pytest.param("issued_at", "2027-03-01T12:00:00", id="a time without zone"),
        pytest.param("expires_at", "2027-03-01T12:00:00Z", id="expired when it is issued"),
        pytest.param("expires_at", "2027-03-01T12:30:00+01:00", id="expired before, in another zone"),
        pytest.param("arguments", {"on": None}, id="an argument without value"),
        pytest.param("arguments", {"on": [True]}, id="a list for an argument"),
        pytest.param("arguments", {"on": {"a": 1}}, id="an object for an argument"),
        pytest.param("arguments", {"On": True}, id="a capital in an argument's name"),
        pytest.param("arguments", {"a.b": True}, id="a path for an argument's name"),
        pytest.param("arguments", {"name": ""}, id="an empty text"),
        pytest.param("arguments", {"name": "x" * 201}, id="a long text"),
        pytest.param("arguments", {"name": "a\nb"}, id="two lines of text"),
        pytest.param("arguments", {f"a{'b' * n}": 1 for n in range(9)}, id="nine arguments"),
        pytest.param("precondition", {"version": -1}, id="a version below nought"),
        pytest.param("precondition", {"etag": "x"}, id="an etag that is none"),
        pytest.param("precondition", {"readings": {"#": 1}}, id="a wildcard for a reading"),
        pytest.param("precondition", {"anything": 1}, id="an unknown precondition"),
        pytest.param("precondition", {"readings": {f"r{n}": 1 for n in range(17)}}, id="17 readings"),
    ],
)
def test_a_command_with_one_wrong_field_is_refused_by_its_place(field: str, value: JsonValue) -> None:
    with pytest.raises(MalformedError) as refusal:
        read(fields_of(**{field: value}))

    # That one time lies before another, or one device is another, is a fault of the whole.
    whole = "value: "
    assert str(refusal.value).startswith((field, f"{whole}it expires", f"{whole}a device is named twice"))


@given(
    arguments=st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,31}", fullmatch=True),
        st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
        max_size=8,
    )
)
def test_arguments_keep_their_type_on_the_way(arguments: dict[str, JsonValue]) -> None:
    """A truth that became a number, or 1.0 that became 1, would be another command."""
    command = read(fields_of(arguments=arguments))

    assert command.arguments == arguments
    assert {name: type(value) for name, value in command.arguments.items()} == {
        name: type(value) for name, value in arguments.items()
    }
    assert decode(Command, encode(command), limit=COMMAND_BYTES) == command
