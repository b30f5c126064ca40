"""``edgeagent support-bundle``: people's names for devices are in none of it."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.ids import Label, device_id
from edgeagent.store import devices
from edgeagent.store.database import Transaction
from tests.cli.building import Terminal, lonely_terminal, terminal
from tests.support.clocks import NOON
from tests.support.stores import opened

pytestmark = [pytest.mark.requirement("O5", "A2"), pytest.mark.threat("T46")]

NAMES: Final = ('TV "Lobby"', "Küche\\TV", "Bar", "1204", "204", "true", "device", "Anna's 🔥", "warning")
"""What JSON escapes, what Python does, what is short, a number, or a word that we use too."""


def parts(file: Path) -> dict[str, str]:
    """The files of a bundle."""
    with tarfile.open(file) as tar:
        read = {member.name.partition("/")[2]: tar.extractfile(member) for member in tar}
        return {name: opened_.read().decode() for name, opened_ in read.items() if opened_ is not None}


def said_in(value: JsonValue) -> Iterator[str]:
    """All texts within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from said_in(each)


def texts(found: dict[str, str]) -> list[str]:
    """All that a bundle says: of JSON what is said in it, all of which has to be JSON still."""
    documents = [text for name, text in found.items() if name.endswith(".json")]
    documents += found.get("audit.jsonl", "").splitlines()
    others = [text for name, text in found.items() if not name.endswith((".json", ".jsonl"))]
    return [text for document in documents for text in said_in(json.loads(document))] + others


def last_report(*names: str) -> HealthReport:
    """A report that tells of these names as a topic, as its repr, and of each as it is."""
    topics = [f"zigbee2mqtt/{name}/set" for name in names]
    summary = f"refused: {', '.join(topics)}; {', '.join(map(ascii, topics))}; {', '.join(map(repr, topics))}"
    checks = [Check(name="topics", level=Level.CRITICAL, summary=summary)]
    checks += [Check(name=f"name-{place}", level=Level.OK, summary=name) for place, name in enumerate(names)]
    return HealthReport(at=NOON, checks=checks)


async def bundle_of(typing: Terminal, file: Path) -> dict[str, str]:
    """What a bundle holds that is made here."""
    said = await typing.types("support-bundle", "--yes", "--out", str(file))
    assert said.status == 0, said.err
    return parts(file)


async def test_the_agent_tells_the_names_and_none_of_them_is_in_it(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        hub = typing.desk.hub
        for place, name in enumerate(NAMES):
            device = device_id(f"dev-{place}")
            await hub.devices.admit(device, "thing", {"topic": device}, Label(name), actor="uid:0 root")
            hub.bus.delivers(f"{device}/sensor", b'{"temperature": 20}', qos=0)
        await hub.takes_in()

        found = await bundle_of(typing, tmp_path / "b")

    assert [text for text in texts(found) for name in NAMES if text == name] == []
    everything = "".join(texts(found))
    assert [name for name in ("Lobby", "Küche", "Bar", "Anna") if name in everything] == []
    checks = {check["name"]: check for check in json.loads(found["health.json"])["checks"]}
    assert "promised: dev-0, dev-1" in checks["qos0"]["summary"]
    known = json.loads(found["devices.json"])["devices"]
    assert [each["device"] for each in known] == [f"dev-{place}" for place in range(len(NAMES))]
    assert json.loads(found["manifest.json"])["not_looked_for"] == []


async def test_a_name_that_a_bridge_gave_is_a_name_too_with_the_agent_down(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()

    def admits(tx: Transaction) -> None:
        for place, name in enumerate(NAMES):
            device = devices.Admitted(
                device=device_id(f"dev-{place}"),
                label=Label(f"The {place}th"),
                profile="zigbee2mqtt",
                parameters={"friendly_name": name, "base": "zigbee2mqtt"},
                at="2026-11-30T00:00:00.000Z",
                by="uid:0 root",
            )
            devices.admit(tx, device, etag=f"etag-{place}")

    async with opened(tmp_path / "state" / "hub.db") as database:
        await database.write(admits)
    async with lonely_terminal(tmp_path) as lonely:
        (lonely.run_dir / "last-health.json").write_bytes(encode(last_report(*NAMES)))

        found = await bundle_of(lonely, tmp_path / "b")

    checks = {check["name"]: check["summary"] for check in json.loads(found["health.json"])["checks"]}
    for place, name in enumerate(NAMES):
        assert checks["topics"].count(f"zigbee2mqtt/[label of dev-{place}]/set") == 3
        assert f"zigbee2mqtt/{name}/" not in "".join(texts(found))
        # Such a word by itself may speak of anything.
        left = name if name in {"Bar", "1204", "204", "true"} else f"[label of dev-{place}]"
        assert checks[f"name-{place}"].startswith(f"{left} (as of ")
    assert json.loads(found["manifest.json"])["left_out"][-1] == "people's names for devices"


async def test_where_the_names_are_not_known_the_bundle_claims_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "hub.db").write_bytes(bytes(8192))
    async with lonely_terminal(tmp_path) as lonely:
        said = await lonely.types("support-bundle", "--yes", "--out", str(tmp_path / "b"))

    told = json.loads(parts(tmp_path / "b")["manifest.json"])
    assert "people's names for devices" not in told["left_out"]
    assert told["not_looked_for"] == ["people's names for devices"]
    assert "Not known now, and so perhaps in it: people's names for devices." in said.err.splitlines()
