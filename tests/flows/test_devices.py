"""Which devices the hub works with: proposals, admission, topics that belong to one, and letting go."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType, Stream
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import MalformedError, RejectedError, StorageError
from edgeagent.flows.proposals import MOST_PROPOSALS
from edgeagent.ids import device_id
from edgeagent.store import audit
from tests.flows.building import Hub, new_hub
from tests.support.stores import full_disk

pytestmark = pytest.mark.requirement("M4")

ROOT = "uid:0 root"
DEV = device_id("dev-1")
PLUG = "AABBCCDDEEFF"

CRIER = """
format = 1
id = "crier"
version = "1.0.0"
title = "Announces itself where it also tells its state"
transport = "hub"

[parameter.square]
type = "segment"
default = "market"

[[match]]
topic = "square/market"
when = ["$.id exists"]
device = "$.id"

[reading.power]
kind = "boolean"
state = true
from = [{ topic = "square/{square}", pick = "$.power" }]
"""
"""Its announcements come over the one session, its state over the other, on one and the same topic."""


async def announces(hub: Hub, device: str, label: str = "A lamp", *, retain: bool = False) -> None:
    """A device shows itself."""
    hub.bus.delivers(f"announce/{device}", json.dumps({"label": label}).encode(), retain=retain)
    await hub.settles()


async def records(hub: Hub, kind: AuditKind) -> list[tuple[str, str, dict[str, object]]]:
    """Subject, actor and detail of the audit rows of a kind."""
    rows = await hub.store.read(lambda db: audit.rows(db, after=0, most=1000))
    return [(row.subject, row.actor, json.loads(row.detail)) for row, _ in rows if row.kind == kind]


class TestProposals:
    """A device that shows itself is proposed, and nothing more."""

    async def test_an_announcement_is_a_proposal_and_changes_nothing_else(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await announces(hub, "dev-1", "The lamp by the door")

            [proposal] = hub.devices.proposals.values()

            assert (proposal.device, proposal.profile, proposal.label) == (
                "dev-1",
                "thing",
                "The lamp by the door",
            )
            assert proposal.parameters == {"topic": "dev-1"}
            assert hub.devices.all() == []
            assert hub.rows("SELECT 1 FROM devices") == []
            assert await hub.told(Stream.RECORD) == []

    async def test_what_it_reports_is_not_taken_before_it_is_admitted(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await announces(hub, "dev-1")
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            assert await hub.told(Stream.STATE) == []

    async def test_a_later_announcement_takes_the_place_of_the_earlier(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await announces(hub, "dev-1", "before")
            await announces(hub, "dev-1", "after")

            assert [proposal.label for proposal in hub.devices.proposals.values()] == ["after"]

    async def test_one_that_is_taken_back_is_gone(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await announces(hub, "dev-1")
            await announces(hub, "dev-2")
            hub.bus.delivers("announce/dev-1", b"")
            await hub.settles()

            assert list(hub.devices.proposals) == ["dev-2"]

    async def test_an_admitted_device_is_not_proposed(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await announces(hub, "dev-1")

            assert hub.devices.proposals == {}

    @pytest.mark.requirement("R7", "M5")
    async def test_a_flood_of_made_up_devices_ends_at_a_bound(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await announces(hub, "first", "before the flood")
            for number in range(MOST_PROPOSALS + 50):
                hub.bus.delivers(f"announce/flood-{number}", b'{"label": "x"}')
            await hub.settles()
            await announces(hub, "first", "after the flood")

            assert len(hub.devices.proposals) == MOST_PROPOSALS
            assert hub.devices.proposals[device_id("first")].label == "after the flood"

    @pytest.mark.requirement("V5")
    @pytest.mark.parametrize(
        ("topic", "payload"),
        [
            pytest.param("announce/dev 1", b'{"label": "x"}', id="an id with a space"),
            pytest.param("announce/dev\x1b[2J", b'{"label": "x"}', id="an id that clears a screen"),
            pytest.param(f"announce/{'x' * 65}", b'{"label": "x"}', id="an id that is too long"),
            pytest.param("announce/dev-1", b"[]", id="not the family's document"),
            pytest.param("announce/dev-1", b'{"label": "x", "label": "y"}', id="one key twice"),
            pytest.param("announce/dev-1", b"\xff", id="no UTF-8"),
        ],
    )
    async def test_what_does_not_fit_makes_none(self, tmp_path: Path, topic: str, payload: bytes) -> None:
        async with new_hub(tmp_path) as hub:
            hub.bus.delivers(topic, payload)
            await hub.settles()

            assert hub.devices.proposals == {}

    @pytest.mark.requirement("V5")
    async def test_a_label_is_cleaned_of_what_a_terminal_would_act_on(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await announces(hub, "dev-1", "La\x1b[31mmp\u202e\r\n")

            [proposal] = hub.devices.proposals.values()

            assert proposal.label.isprintable()
            assert proposal.label.startswith("La")

    async def test_tasmotas_own_announcement_proposes_a_tasmota(self, tmp_path: Path) -> None:
        config = {
            "ver": 1,
            "mac": PLUG,
            "t": "plug-a",
            "ft": "%prefix%/%topic%/",
            "tp": ["cmnd", "stat", "tele"],
            "dn": "Plug A",
            "md": "Plug",
            "sw": "14.1.0",
            "rl": [1, 0],
            "hn": "plug-a",
            "state": ["OFF", "ON"],
            "onln": "Online",
            "ofln": "Offline",
            "lt_st": 0,
            "so": {"4": 0},
        }
        async with new_hub(tmp_path) as hub:
            hub.bus.delivers(f"tasmota/discovery/{PLUG}/config", json.dumps(config).encode(), retain=True)
            await hub.settles()

            [proposal] = hub.devices.proposals.values()
            await hub.devices.admit(
                proposal.device, proposal.profile, proposal.parameters, proposal.label, actor=ROOT
            )
            hub.bus.delivers("stat/plug-a/POWER", b"ON")
            await hub.settles()

            assert await hub.values("power") == [True]


class TestAdmission:
    """An operator takes a device in."""

    async def test_it_is_stored_told_put_on_record_and_listened_to(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            told: list[str] = []
            hub.devices.when_admitted(told.append)
            await announces(hub, "dev-1")

            await hub.admits("dev-1")
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            assert await hub.values("power") == [True]
            [event] = await hub.told(Stream.RECORD, EventType.DEVICE_ADMITTED)
            assert (event.device, event.data) == (
                "dev-1",
                {"label": "The dev-1", "profile": "thing", "actions": ["power"]},
            )
            assert await records(hub, AuditKind.DEVICE_ADMITTED) == [
                ("dev-1", ROOT, {"profile": "thing", "parameters": {"topic": "dev-1"}})
            ]
            assert hub.rows("SELECT device FROM shadows") == [("dev-1",)]
            assert told == ["dev-1"]
            assert hub.devices.proposals == {}
            assert hub.counted("edgeagent_devices") == 1

    async def test_it_is_still_there_after_a_restart(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await hub.dies()
            await hub.starts()

            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            assert await hub.values("power") == [True]

    @pytest.mark.parametrize(
        ("device", "profile", "parameters", "word"),
        [
            pytest.param("dev-1", "thing", {"topic": "elsewhere"}, "admitted already", id="a second time"),
            pytest.param("dev-2", "toaster", {"topic": "dev-2"}, "no profile", id="no such family"),
            pytest.param("dev-2", "thing", {}, "topic", id="a parameter is missing"),
            pytest.param("dev-2", "thing", {"topic": "a/b"}, "topic", id="a parameter of another kind"),
            pytest.param("dev-2", "thing", {"topic": "dev-2", "x": 1}, "x", id="an unknown parameter"),
            pytest.param("dev-2", "thing", {"topic": "dev-1"}, "dev-1 has the topic", id="another's topic"),
            pytest.param("dev-2", "thing", {"topic": "+"}, "topic", id="a wildcard"),
        ],
    )
    async def test_what_cannot_be_taken_in_is_refused_and_nothing_is_changed(
        self, tmp_path: Path, device: str, profile: str, parameters: dict[str, str | int], word: str
    ) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            before = hub.rows("SELECT * FROM devices"), await hub.told(Stream.RECORD)

            with pytest.raises(RejectedError, match=word):
                await hub.devices.admit(
                    device_id(device), profile, parameters, hub.devices.all()[0].admitted.label, actor=ROOT
                )

            assert (hub.rows("SELECT * FROM devices"), await hub.told(Stream.RECORD)) == before
            assert len(await records(hub, AuditKind.DEVICE_ADMITTED)) == 1
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()
            assert await hub.values("power", "dev-1") == [True]

    async def test_two_that_want_one_topic_at_the_same_time_do_not_both_get_it(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            results = await asyncio.gather(
                hub.admits("dev-1", topic="shared"),
                hub.admits("dev-2", topic="shared"),
                return_exceptions=True,
            )

            assert [type(result) for result in results].count(RejectedError) == 1
            assert len(hub.rows("SELECT device FROM devices")) == 1
            assert len(hub.devices.all()) == 1

    @pytest.mark.requirement("R2")
    async def test_one_that_the_disk_does_not_take_is_not_admitted(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            with full_disk(hub.path), pytest.raises(StorageError):
                await hub.admits("dev-2")

            assert [device.id for device in hub.devices.all()] == ["dev-1"]

    async def test_a_family_that_announces_itself_on_a_topic_of_its_state_stays_on_one_session(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path, profiles=[CRIER]) as hub:
            hub.bus.delivers("square/market", b'{"id": "crier-1"}')
            await hub.settles()
            assert list(hub.devices.proposals) == ["crier-1"]

            await hub.admits("crier-1", "crier")
            hub.bus.delivers("square/market", b'{"id": "crier-1", "power": true}')
            await hub.settles()

            assert await hub.values("power") == [True]


class TestLoading:
    """What is stored is worked with, as far as it can be."""

    @pytest.mark.parametrize("change", ["the profile is gone", "a parameter is gone"])
    async def test_one_that_fits_its_profile_no_more_is_left_out_and_the_others_work(
        self, tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with new_hub(tmp_path, "dev-1", profiles=[CRIER]) as hub:
            await hub.admits("crier-1", "crier", square="fair")
            await hub.dies()
            profile = hub.profiles.pop("crier")
            if change == "a parameter is gone":
                hub.profiles["crier"] = profile.model_copy(update={"parameters": {}})

            with caplog.at_level(logging.WARNING):
                await hub.starts()
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            assert [device.id for device in hub.devices.all()] == ["dev-1"]
            assert await hub.values("power") == [True]
            [line] = [record for record in caplog.records if record.message == "device left out"]
            assert vars(line)["device"] == "crier-1"
            assert hub.rows("SELECT device FROM devices ORDER BY device") == [("crier-1",), ("dev-1",)]

    async def test_one_that_was_left_out_can_be_let_go(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, profiles=[CRIER]) as hub:
            await hub.admits("crier-1", "crier")
            await hub.dies()
            del hub.profiles["crier"]
            await hub.starts()

            await hub.devices.forget(device_id("crier-1"), actor=ROOT)

            assert hub.rows("SELECT device FROM devices") == []


class TestForgetting:
    """A device that is let go is a stranger."""

    async def test_it_is_gone_with_its_shadow_and_that_is_told(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            await hub.devices.forget(DEV, actor=ROOT)

            assert [device.id for device in hub.devices.all()] == ["dev-2"]
            assert hub.rows("SELECT device FROM shadows") == [("dev-2",)]
            assert hub.rows("SELECT DISTINCT device FROM shadow_readings") == [("dev-2",)]
            [event] = await hub.told(Stream.RECORD, EventType.DEVICE_FORGOTTEN)
            assert event.device == "dev-1"
            assert await records(hub, AuditKind.DEVICE_FORGOTTEN) == [("dev-1", ROOT, {})]
            assert hub.counted("edgeagent_devices") == 1

    async def test_a_stranger_cannot_be_forgotten(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            with pytest.raises(RejectedError, match="not admitted"):
                await hub.devices.forget(device_id("dev-2"), actor=ROOT)

            assert await hub.told(Stream.RECORD, EventType.DEVICE_FORGOTTEN) == []
            assert await records(hub, AuditKind.DEVICE_FORGOTTEN) == []

    async def test_its_topics_are_free_for_another(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await hub.devices.forget(DEV, actor=ROOT)

            await hub.admits("dev-2", topic="dev-1")
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            assert await hub.values("power", "dev-2") == [True]

    async def test_admitted_anew_it_begins_from_nothing(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()
            await hub.devices.forget(DEV, actor=ROOT)
            device = await hub.admits("dev-1")
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.settles()

            assert device.shadow.version == 2
            assert [told.data["version"] for told in await hub.told(Stream.STATE)] == [1, 2, 2]


async def test_a_device_id_is_checked_before_anything_is_done(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        with pytest.raises(MalformedError):
            await hub.admits("dev/1")
