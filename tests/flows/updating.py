"""A hub that updates a player, for the tests of all that may become of that."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import ActionRule, Tier
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.core.work import Claim
from edgeagent.ids import DeviceId, artifact_id, digest
from edgeagent.ports.firmware import Image
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted_player import NEW, OLD
from tests.flows.signing import PLAYER, POWER
from tests.support.waiting import eventually

INSTALL: Final = ActionName.INSTALL
IMAGE: Final = Image(artifact=artifact_id("player-2.0.0"), sha256=digest("2" * 64), version=NEW)
BEFORE: Final = Image(artifact=artifact_id("player-1.0.0"), sha256=digest("1" * 64), version=OLD)


@asynccontextmanager
async def updating_hub(folder: Path) -> AsyncIterator[Hub]:
    """A hub that may install the new image, and the old one again."""
    async with new_hub(folder) as made:
        made.shelf.images = [IMAGE, BEFORE]
        made.now.trust.catalogue = made.shelf.catalogue
        rule = ActionRule(tier=Tier.LOW)
        await made.has_policy(
            version=2,
            actions={INSTALL: rule, POWER: rule},
            artifacts={each.artifact: frozenset({each.sha256}) for each in (IMAGE, BEFORE)},
            firmware=FirmwareRule(soak=timedelta(seconds=2), patience=timedelta(seconds=20)),
        )
        yield made


def install(hub: Hub, image: Image = IMAGE, device: DeviceId = PLAYER) -> Command:
    """Install it on a player."""
    return hub.command(INSTALL, device=device, artifact=str(image.artifact), digest=str(image.sha256))


async def comes_to_its_end(
    hub: Hub, working: "asyncio.Task[Claim]", meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Let time pass until a command that is worked has ended."""

    def is_done() -> bool:
        meanwhile()
        hub.passes(timedelta(milliseconds=100))
        return working.done()

    await eventually(is_done)
    await working
