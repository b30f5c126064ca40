"""``setup check`` says whether a broker of the hub's own has what it is to have (SPEC H5, M4)."""

from pathlib import Path

import pytest

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.setup.checking import SetupCheck
from edgeagent.setup.services import FETCHER, WORKER, Services
from tests.setup.broker.building import PLUG, admits, in_force
from tests.support.clocks import ManualClock
from tests.support.own_broker import OwnBroker

pytestmark = pytest.mark.requirement("H5", "M4")


needs_systemctl = pytest.mark.skipif(
    not Path("/usr/bin/systemctl").exists(), reason="no systemd is installed"
)


def looked(config: Path) -> Check:
    """What it says of the broker."""
    checks = SetupCheck(config=config, clock=ManualClock(), services=None).checks()
    [found] = [check for check in checks if check.name == "broker"]
    return found


def test_it_is_told_until_it_is_in_force_and_again_when_a_device_has_come(tmp_path: Path) -> None:
    with OwnBroker(tmp_path / "etc", tmp_path / "state") as broker:
        config = broker.configure(tmp_path / "config.toml")
        before = looked(config)
        in_force(config, broker)
        done = looked(config)
        admits(tmp_path / "state", PLUG)
        stale = looked(config)
        (broker.folder / "conf.d" / "theirs.conf").write_text("allow_anonymous true\n")
        blocked = looked(config)

    assert (before.level, done.level, stale.level) == (Level.WARNING, Level.OK, Level.WARNING)
    assert "edgeagent broker apply" in stale.advice
    assert (blocked.level, "says who may come in" in blocked.summary) == (Level.WARNING, True)


@needs_systemctl
def test_units_that_the_configuration_needs_nothing_of_are_not_missed(tmp_path: Path) -> None:
    services = Services(("edgeagent-none.service", WORKER, FETCHER))
    said = []
    for who in ("inside", "outside"):
        config = tmp_path / f"{who}.toml"
        config.write_text(f'[hub]\nid = "hub"\n[worker]\nhigh = "{who}"\n[fetch]\nby = "{who}"\n')
        checks = SetupCheck(config=config, clock=ManualClock(), services=services).checks()
        said += [check.summary for check in checks if check.name == "services"]

    assert said == ["do not run: edgeagent-none.service", f"do not run: {', '.join(services.units)}"]
