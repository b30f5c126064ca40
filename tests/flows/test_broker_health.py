"""Whose rules are in force at a broker of the hub's own: health says when they are old (SPEC M4, O5)."""

from pathlib import Path

import pytest

from edgeagent.contracts.broker_access import Rule
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.broker_rules import digest_of
from edgeagent.core.profile.access import access_of
from edgeagent.flows.broker_health import broker_checks
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.ids import Digest, device_id
from tests.flows.building import Hub, new_hub

pytestmark = pytest.mark.requirement("M4", "O5")


def looked(hub: Hub, access: Path | None, *, is_open: bool | None = None) -> Check:
    """What health says of it."""
    watch = BrokerWatch(hub.store, hub.bus, hub.devices, hub.around, access)
    watch.is_open = is_open
    checks = broker_checks(hub.bus, watch, hub.devices, hub.around.clock.boot())
    [found] = [check for check in checks if check.name == "broker-access"]
    return found


def rule(hub: Hub, device: str, *, has_password: bool = True, is_expected: bool = False) -> str:
    """The line of a device's rules as they are now."""
    found = hub.devices.get(device_id(device))
    assert found is not None
    digest = Digest(digest_of(access_of(found.compiled)))
    return Rule(digest=digest, login=device, has_password=has_password, is_expected=is_expected).line


async def test_a_guest_is_told_where_to_ask(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        check = looked(hub, None)

        assert (check.level, check.advice) == (Level.OK, "edgeagent broker check")
        assert "not ours to say" in check.summary
        assert "lets in anybody" in looked(hub, None, is_open=True).summary


async def test_a_connection_that_waits_for_the_disk_sends_nobody_to_the_broker(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        hub.bus.hold(held=True)
        watch = BrokerWatch(hub.store, hub.bus, hub.devices, hub.around, None)
        checks = broker_checks(hub.bus, watch, hub.devices, hub.around.clock.boot())

        held = [check.advice for check in checks if check.name in {"broker-control", "broker-telemetry"}]
        assert held == ["see database: it is connected again when that takes writes"] * 2


async def test_rules_are_old_when_a_device_was_admitted_or_forgotten_since(tmp_path: Path) -> None:
    file = tmp_path / "access"
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
        assert looked(hub, file).level is Level.WARNING  # nothing was ever applied
        file.write_text(f"# ours\n{rule(hub, 'dev-1')}\n{rule(hub, 'dev-2')}\n")
        assert looked(hub, file).level is Level.OK

        file.write_text(f"# ours\n{rule(hub, 'dev-1')}\n")
        admitted = looked(hub, file)
        file.write_text(f"# ours\n{rule(hub, 'dev-1')}\n{rule(hub, 'dev-2', is_expected=True)}\n")
        assert looked(hub, file).summary == "its rules are not those of: dev-2"
        file.write_text(f"# ours\n{rule(hub, 'dev-1')}\n{rule(hub, 'dev-2')}\n")
        await hub.devices.forget(device_id("dev-2"), actor="a person")
        forgotten = looked(hub, file)

        assert (admitted.level, forgotten.level) == (Level.WARNING, Level.WARNING)
        assert admitted.summary == "its rules are not those of: dev-2"
        assert "not admitted any more may still come in: dev-2" in forgotten.summary
        assert "edgeagent broker apply" in forgotten.advice


async def test_a_device_without_a_login_is_named_and_one_that_is_expected_is_not(tmp_path: Path) -> None:
    file = tmp_path / "access"
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
        waiting = rule(hub, "dev-2", is_expected=True)
        await hub.devices.forget(device_id("dev-2"), actor="a person")
        file.write_text(f"{rule(hub, 'dev-1', has_password=False)}\n{waiting}\n")
        mute = looked(hub, file)
        file.write_text(f"{rule(hub, 'dev-1')}\n{waiting}\n")

        assert mute.summary == "have no login: dev-1"
        assert mute.advice == "sudo edgeagent broker logins add dev-1"
        assert looked(hub, file).level is Level.OK


@pytest.mark.parametrize("text", [b"\xff\xfe", b"nonsense\n", b"0123 dev-1 password admitted\n"])
async def test_a_file_that_is_not_understood_is_told_as_missing(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "access"
    file.write_bytes(text)
    async with new_hub(tmp_path, "dev-1") as hub:
        assert "cannot be read" in looked(hub, file).summary
