"""The check of the policy: what an operator is told, and when."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.flows.policy_health import policy_check
from edgeagent.store.database import Database
from tests.flows.publishing import Hub, policy, started
from tests.support.clocks import NOON
from tests.support.tuf_repository import DAY, Repository

pytestmark = pytest.mark.requirement("O5", "C5")

HOUR = timedelta(hours=1)


@dataclass(slots=True)
class Look:
    """A hub that holds a policy, and its operator's look at it later."""

    hub: Hub

    def after(self, length: timedelta) -> Check:
        """The check when so much time has passed."""
        self.hub.readings.passes(length)
        return policy_check(self.hub.trust, self.hub.clock.wall())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A policy whose timestamp ends in eight days; the low tier has a day of grace."""
    made = Repository(tmp_path / "repository", now=NOON)
    made.lasts["timestamp"] = 8 * DAY
    made.publishes(policy(3, tiers={Tier.LOW: TierRule(grace=DAY)}))
    return made


@pytest.fixture
async def look(store: Database, repository: Repository) -> Look:
    """A hub that holds it."""
    hub = await started(store, repository)
    await hub.refreshes()
    return Look(hub)


async def test_one_in_force_is_named_with_its_end(look: Look) -> None:
    check = look.after(HOUR)

    assert check == Check(
        name="policy", level=Level.OK, summary="version 3 is in force until 2027-03-09 12:00 UTC"
    )


async def test_the_last_quarter_of_its_life_is_a_warning_with_the_reason(look: Look) -> None:
    early = look.after(5 * DAY + 23 * HOUR)
    look.hub.trust.source_problem = "no route to host"
    late = look.after(2 * HOUR)

    assert early.level is Level.OK
    assert late.level is Level.WARNING
    assert late.summary == "version 3 ends at 2027-03-09 12:00 UTC; it cannot be renewed: no route to host"


async def test_of_a_long_life_the_last_week_is_a_warning(store: Database, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "long", now=NOON)
    repository.lasts.update(timestamp=100 * DAY, snapshot=100 * DAY, targets=100 * DAY)
    repository.publishes(policy(3))
    hub = await started(store, repository)
    await hub.refreshes()
    look = Look(hub)

    assert look.after(92 * DAY).level is Level.OK
    assert look.after(2 * DAY).level is Level.WARNING


async def test_in_its_grace_it_is_a_warning_that_names_the_tiers_and_after_it_critical(look: Look) -> None:
    within = look.after(8 * DAY + HOUR)
    beyond = look.after(DAY)

    assert within.level is Level.WARNING
    assert within.summary.endswith("; its grace still allows tier low")
    assert (beyond.level, beyond.summary) == (
        Level.CRITICAL,
        "version 3 expired at 2027-03-09 12:00 UTC",
    )
    assert beyond.advice


async def test_one_that_was_refused_is_a_warning_while_another_is_in_force(look: Look) -> None:
    look.hub.trust.policy_problem = "timestamp.json is expired"

    check = look.after(HOUR)

    assert check.level is Level.WARNING
    assert "version 3 is in force; what came later was refused: timestamp.json is expired" in check.summary


async def test_a_source_that_is_away_for_a_while_is_no_warning_yet(look: Look) -> None:
    look.hub.trust.source_problem = "no route to host"

    check = look.after(HOUR)

    assert check.level is Level.OK
    assert check.summary.endswith("; not renewed: no route to host")


async def test_a_clock_that_is_not_sure_is_said_here_too(store: Database, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository", now=NOON)
    repository.publishes(policy(3))
    hub = await started(store, repository, is_sure=False)
    await hub.refreshes()

    assert "the clock is not sure" in Look(hub).after(HOUR).summary


async def test_before_the_first_one_commands_are_refused_and_the_reason_is_told(
    store: Database, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "repository", now=NOON)
    hub = await started(store, repository)
    hub.trust.source_problem = "there is no metadata/timestamp.json"

    check = Look(hub).after(HOUR)

    assert check.level is Level.CRITICAL
    assert check.summary == (
        "none has come from [policy] source yet (there is no metadata/timestamp.json): "
        "readings go up, commands are refused"
    )


async def test_a_refused_catalogue_is_told_beside_the_policy(look: Look) -> None:
    look.hub.trust.catalogue_problem = "artifact plug-1 is signed for by lamps and by plugs"

    check = look.after(HOUR)

    assert check.level is Level.WARNING
    assert check.summary == (
        "version 3 is in force; artifacts beside it were refused: "
        "artifact plug-1 is signed for by lamps and by plugs"
    )


@pytest.mark.requirement("F5")
async def test_a_zone_that_is_not_known_here_is_told_and_the_policy_in_force_stays(
    look: Look, repository: Repository
) -> None:
    raw = encode(policy(4, firmware=FirmwareRule(zone="Europe/Berlin")))
    repository.publishes(raw.replace(b"Europe/Berlin", b"Europe/Nowhere"))

    await look.hub.refreshes()
    check = look.after(HOUR)

    assert check.level is Level.WARNING
    assert check.summary.startswith("version 3 is in force; what came later was refused: firmware.zone: ")
    assert "no time zone is called 'Europe/Nowhere'" in check.summary
