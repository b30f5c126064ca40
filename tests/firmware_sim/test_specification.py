"""Which appliances there are: invented or written down, and every mistake told with its place."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from firmware_sim.fields import InputError, Json
from firmware_sim.shelly.settings import ShellySettings
from firmware_sim.specification import (
    MODELS,
    ShellySpecification,
    Specification,
    TasmotaSpecification,
    from_file,
    invented,
    specifications,
)
from firmware_sim.tasmota.settings import LightKind

pytestmark = pytest.mark.requirement("F6")

MAC = "02A1B2C3D4E5"


def models(fleet: Sequence[Specification]) -> list[str]:
    """The models of invented appliances, which are of two families."""
    return [entry.model for entry in fleet if isinstance(entry, ShellySpecification | TasmotaSpecification)]


def test_a_seed_invents_the_same_appliances_and_all_models_in_turn() -> None:
    first = invented("7", 20)

    assert first == invented("7", 20)
    assert first != invented("8", 20)
    assert models(first[: len(MODELS)]) == list(MODELS)
    assert len({entry.mac[6:] for entry in first}) == 20


def test_more_appliances_of_one_seed_begin_with_the_fewer() -> None:
    assert models(invented("7", 5)) == models(invented("7", 9)[:5])


def test_appliances_are_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "venue.toml"
    path.write_text(
        """
        [[appliance]]
        model = "tasmota-light"
        mac = "02A1B2C3D4E5"
        username = "lamp"
        password = "light"
        [appliance.settings]
        light = "ct"
        state_words = ["AUS", "AN", "UM", "HALT"]
        options = { 4 = true, 17 = false }

        [[appliance]]
        model = "shelly-plug"
        mac = "02A1B2C3D4E6"
        [appliance.settings]
        status_ntf = true
        """,
        encoding="utf-8",
    )

    lamp, plug = from_file(path)

    assert isinstance(lamp, TasmotaSpecification)
    assert (lamp.account.username, lamp.account.password) == ("lamp", "light")
    assert (lamp.settings.light, lamp.settings.state_words[1]) == (LightKind.CT, "AN")
    assert lamp.settings.options == {4}
    assert isinstance(plug, ShellySpecification)
    assert plug.settings == ShellySettings(status_ntf=True)
    assert "light" not in repr(lamp.account)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        pytest.param({"model": "toaster", "mac": MAC}, r"\[0\]\.model: 'toaster' is none of", id="model"),
        pytest.param({"model": "shelly-plug", "mac": "aa"}, "twelve capital", id="mac"),
        pytest.param({"model": "shelly-plug"}, "'mac' is missing", id="no mac"),
        pytest.param({"model": "shelly-plug", "mac": MAC, "colour": 1}, "unknown colour", id="unknown"),
        pytest.param(
            {"model": "shelly-plug", "mac": MAC, "settings": {"light": "ct"}},
            "unknown light",
            id="other family",
        ),
        pytest.param(
            {"model": "shelly-plug", "mac": MAC, "settings": {"topic_prefix": "a/#"}},
            "topic_prefix",
            id="prefix",
        ),
        pytest.param(
            {"model": "tasmota-plug", "mac": MAC, "settings": {"full_topic": "x" * 101}},
            "at most 100",
            id="topic",
        ),
        pytest.param(
            {"model": "tasmota-plug", "mac": MAC, "settings": {"options": {"40": True}}},
            "SetOption40",
            id="option",
        ),
        pytest.param(
            {"model": "tasmota-plug", "mac": MAC, "settings": {"prefixes": ["a"]}},
            "list of 3 texts",
            id="prefixes",
        ),
    ],
)
def test_an_appliance_that_cannot_be_is_refused_with_the_place(written: Json, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        specifications([written])


def test_two_appliances_with_one_id_are_refused() -> None:
    twice: Json = [{"model": "tasmota-plug", "mac": MAC}, {"model": "tasmota-light", "mac": MAC}]

    with pytest.raises(InputError, match="one id"):
        specifications(twice)


def test_too_many_appliances_are_refused() -> None:
    with pytest.raises(InputError, match="1 to 1000 are possible"):
        invented("7", 1001)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.toml", "x ="), ("a.json", "{"), ("a.json", "\xff")],
    ids=["no TOML", "half of JSON", "Latin-1"],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(InputError, match=name):
        from_file(path)
