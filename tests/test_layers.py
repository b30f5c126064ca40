"""The house: every import goes down, files and functions stay small, and what is apart stays apart."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.house import (
    House,
    cycles,
    impure,
    knows_the_agent,
    misnamed,
    oversized,
    read,
    what_the_worker_reaches,
    wrong_imports,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def house() -> House:
    return read(ROOT, "edgeagent")


@pytest.fixture(scope="module")
def appliances() -> House:
    return read(ROOT, "firmware_sim")


def test_every_import_goes_down(house: House) -> None:
    assert wrong_imports(house) == []


def test_no_module_imports_itself_by_a_detour(house: House, appliances: House) -> None:
    assert cycles(house) == []
    assert cycles(appliances) == []


def test_the_core_cannot_wait_read_write_or_tell_the_time(house: House) -> None:
    assert impure(house) == []


def test_the_worker_reaches_neither_store_nor_broker_nor_cloud(house: House) -> None:
    assert what_the_worker_reaches(house) == []


def test_the_simulated_appliances_know_nothing_of_the_agent(appliances: House) -> None:
    assert knows_the_agent(appliances) == []


def test_files_functions_and_constructors_stay_within_their_budgets(house: House, appliances: House) -> None:
    assert oversized(house) == []
    assert oversized(appliances) == []


def test_modules_are_named_after_what_they_hold(house: House, appliances: House) -> None:
    assert misnamed(house) == []
    assert misnamed(appliances) == []


# The checker, on small houses.


def built(folder: Path, files: Mapping[str, str]) -> House:
    """A house of these modules."""
    for name, text in files.items():
        path = folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return read(folder, "edgeagent")


GROUND = {
    "edgeagent.errors": "",
    "edgeagent.ids": "from edgeagent.errors import MalformedError",
    "edgeagent.core.gate": "",
    "edgeagent.ports": "",
    "edgeagent.store.database": "",
    "edgeagent.flows.ingest": "",
    "edgeagent.adapters.mqtt.wire": "",
    "edgeagent.adapters.web.page": "",
    "edgeagent.issuer.keys": "",
    "edgeagent.agent": "",
}


DATABASE, MQTT, KEYS = "edgeagent.store.database", "edgeagent.adapters.mqtt.wire", "edgeagent.issuer.keys"
FOR_A_TYPE = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from edgeagent.ports import DeviceBus"


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        pytest.param("edgeagent.ids", f"import {DATABASE}", "imports up:", id="up"),
        pytest.param(DATABASE, "from edgeagent.flows import ingest", "imports up:", id="up by from"),
        pytest.param(DATABASE, "def f():\n    import edgeagent.agent", "imports up:", id="up in a function"),
        pytest.param("edgeagent.core.gate", FOR_A_TYPE, "imports up:", id="up for a type"),
        pytest.param("edgeagent.flows.ingest", f"import {MQTT}", "imports sideways:", id="sideways"),
        pytest.param(MQTT, "import edgeagent.adapters.web.page", "imports sideways:", id="next door"),
        pytest.param("edgeagent.logs", "import edgeagent.config", "imports sideways:", id="the same floor"),
        pytest.param("edgeagent.flows.dispatch", f"import {DATABASE}", "sees floors 0 to 5", id="lowered"),
        pytest.param("edgeagent.flows.ingest", f"import {KEYS}", "may not know the issuer", id="the issuer"),
        pytest.param("edgeagent.cli.issuer", f"import {KEYS}", "outside of a function", id="at once"),
        pytest.param(KEYS, "import edgeagent.flows.ingest", "is the issuer's and takes", id="a flow"),
        pytest.param(KEYS, "import edgeagent.store.outbox", "is the issuer's and takes", id="a table"),
        pytest.param("edgeagent.cellar", "", "edgeagent.cellar stands in no room", id="no room"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, name: str, text: str, fault: str) -> None:
    faults = wrong_imports(built(tmp_path, GROUND | {name: text}))

    assert len(faults) == 1
    assert faults[0].startswith(name)
    assert fault in faults[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "edgeagent.store.outbox",
            "from edgeagent.store.database import Database\nimport edgeagent.core.gate",
        ),
        ("edgeagent.core.profile.plan", "import edgeagent.core.gate"),
        ("edgeagent.core.gate", "import edgeagent.core.profile.plan"),
        ("edgeagent.adapters.mqtt.bus", "import edgeagent.adapters.mqtt.wire"),
        ("edgeagent.flows.dispatch", "import edgeagent.ports\nimport edgeagent.core.gate"),
        ("edgeagent.settings", "import edgeagent.config\nimport edgeagent.profiles.shipped"),
        ("edgeagent.cli.issuer_keys", "def f():\n    from edgeagent.issuer.keys import load"),
        ("edgeagent.issuer.server", "import edgeagent.store.database\nimport edgeagent.adapters.cloud.wire"),
        ("edgeagent.__main__", "from edgeagent.cli.main import main"),
    ],
)
def test_an_import_that_goes_down_or_stays_in_its_room_passes(tmp_path: Path, name: str, text: str) -> None:
    assert wrong_imports(built(tmp_path, GROUND | {name: text})) == []


def test_a_cycle_is_found_however_long_it_is(tmp_path: Path) -> None:
    house = built(
        tmp_path,
        {
            "edgeagent.core.a": "import edgeagent.core.b",
            "edgeagent.core.b": "def f():\n    from edgeagent.core import c",
            "edgeagent.core.c": "from edgeagent.core.a import name",
            "edgeagent.core.d": "import edgeagent.core.a",
        },
    )

    assert cycles(house) == [f"edgeagent.core.{name} imports itself again" for name in "abc"]


@pytest.mark.parametrize(
    "text",
    [
        "import sqlite3",
        "from os import path",
        "def f():\n    import random",
        "from datetime import datetime\nMOMENT = datetime.now()",
        "def f(datetime):\n    return datetime.utcnow()",
    ],
)
def test_a_core_that_is_not_pure_is_found(tmp_path: Path, text: str) -> None:
    assert len(impure(built(tmp_path, {"edgeagent.core.gate": text}))) == 1
    assert impure(built(tmp_path, {"edgeagent.core.gate": "", "edgeagent.flows.gate": text})) == []


def test_what_the_worker_reaches_by_a_detour_is_found(tmp_path: Path) -> None:
    house = built(
        tmp_path,
        GROUND
        | {
            "edgeagent.worker": "import edgeagent.flows.ingest",
            "edgeagent.flows.ingest": "def f():\n    import edgeagent.store.database",
        },
    )

    assert what_the_worker_reaches(house) == ["edgeagent.store.database"]


def test_what_is_over_its_budget_is_found(tmp_path: Path) -> None:
    long = "def f():\n" + '    """' + "x\n" * 50 + '    """\n' + "    pass\n" * 40
    fitting = "def f():\n" + "    pass\n" * 39
    wide = "class A:\n    def __init__(self, a, b, c, /, d, *, e, f, g, h): pass\n"
    narrow = wide.replace(", h", "")

    faults = oversized(built(tmp_path, {"edgeagent.a": long, "edgeagent.b": "\n" * 401, "edgeagent.c": wide}))

    assert faults == [
        "edgeagent.a:1 f has 40 lines",
        "edgeagent.b has 401 lines",
        "edgeagent.c:2 __init__ has 8 arguments",
    ]
    others = {"edgeagent.a": fitting, "edgeagent.b": "\n" * 400, "edgeagent.c": narrow}
    assert oversized(built(tmp_path, others)) == []


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "manager", "types", "const"])
def test_a_module_named_after_nothing_is_found(tmp_path: Path, name: str) -> None:
    assert misnamed(built(tmp_path, {f"edgeagent.{name}": ""})) == [
        f"edgeagent.{name} is named after nothing"
    ]


@pytest.mark.parametrize("text", ["", "import os", '"""Room."""\nX = 1'], ids=["empty", "code", "both"])
def test_a_package_that_is_more_or_less_than_a_docstring_is_found(tmp_path: Path, text: str) -> None:
    assert misnamed(
        built(tmp_path, {"edgeagent.__init__": '"""Agent."""', "edgeagent.core.__init__": text})
    ) == ["edgeagent.core/__init__.py is more than a docstring"]


def test_an_appliance_that_knows_the_agent_is_found(tmp_path: Path) -> None:
    built(tmp_path, {"firmware_sim.link": "def f():\n    from edgeagent import ids"})

    assert knows_the_agent(read(tmp_path, "firmware_sim")) == ["firmware_sim.link:2 imports edgeagent"]
