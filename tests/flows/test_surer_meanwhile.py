"""The time becomes known while a command is being put off because it was not: it is not forgotten."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.receipt import Outcome
from tests.flows.commanding import Hub, new_hub

pytestmark = pytest.mark.requirement("T5", "R4")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with new_hub(tmp_path) as made:
        yield made


async def test_whoever_is_put_off_after_the_proof_by_what_was_known_before_it_goes_on(hub: Hub) -> None:
    """A worker had claimed before the proof. When it gives the command back, everybody was told already."""
    tv = await hub.television()
    command = hub.command(ActionName.REBOOT)
    await hub.admits(command)
    await hub.reboots()
    tv.comes_online()
    await hub.settles()
    claim = await hub.claims(Tier.MEDIUM)
    hub.time_is_known()
    await hub.now.upkeep.look()

    await hub.now.dispatch[Tier.MEDIUM].work(claim)
    await hub.now.upkeep.look()
    await hub.works(Tier.MEDIUM)

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == [("reboot", True)]
