"""The page about the simulated appliances names all that there is."""

from pathlib import Path

import pytest

from firmware_sim.faults import Kind
from firmware_sim.image import Damage, Flaw
from firmware_sim.specification import HOSTILE, MODELS
from firmware_sim.television.settings import Deed
from firmware_sim.zigbee2mqtt.catalogue import BridgeModel
from firmware_sim.zigbee2mqtt.models import ZigbeeModel

pytestmark = pytest.mark.requirement("F6")

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text("utf-8")


def test_every_model_fault_damage_and_deed_is_on_the_page() -> None:
    words = [*MODELS, *BridgeModel, HOSTILE, *ZigbeeModel, *Kind, *Damage, *Flaw, *Deed]

    assert [word for word in words if word != "none" and f"`{word}`" not in PAGE] == []


def test_the_deeds_stand_in_the_order_of_the_buttons() -> None:
    places = [PAGE.index(f"`{deed.value}`") for deed in Deed]

    assert places == sorted(places)
