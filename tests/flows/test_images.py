"""Which files are for a device: as it stands there, and not only by its family."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.adapters.lan_files.settings import LanFilesSettings
from edgeagent.adapters.lan_files.site import LanFiles
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.artifact import ArtifactFacts
from edgeagent.contracts.policy import ActionRule, Tier
from edgeagent.core.catalogue import Artifact, Catalogue, Signed
from edgeagent.flows.artifact_space import ArtifactSpace, SpaceSettings
from edgeagent.flows.fetching import Fetching, FetchingSettings
from edgeagent.flows.images import CatalogueImages
from edgeagent.flows.serving import Serving
from edgeagent.flows.signed_files import ListedFiles
from edgeagent.ids import artifact_id, device_id, digest, label
from edgeagent.store.artifact_files import ArtifactFiles
from tests.flows.commanding import Hub, new_hub
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("F1", "F4")

PLUG: Final = device_id("plug")
"""A plug of the model PM-1, with an ESP32."""
OURS: Final = digest("4" * 64)


def file(number: int, models: frozenset[str], hardware: frozenset[str] = frozenset()) -> Artifact:
    """A build of 14.1.0 for other devices than those of the others."""
    facts = ArtifactFacts(family="tasmota", models=models, hardware=hardware, version="14.1.0(tasmota)")
    return Artifact(
        id=artifact_id(f"file-{number}"),
        sha256=digest(str(number) * 64),
        length=1000,
        facts=facts,
        signed=Signed(group="plugs", version=1, until=NOON + timedelta(days=1)),
    )


async def approve(hub: Hub, files: list[Artifact]) -> None:
    """Let them be signed for and approved."""
    hub.now.trust.catalogue = Catalogue({each.id: each for each in files})
    await hub.has_policy(
        version=2,
        actions={ActionName.INSTALL: ActionRule(tier=Tier.LOW)},
        artifacts={each.id: frozenset({each.sha256}) for each in files},
    )


def images_at(hub: Hub, folder: Path) -> CatalogueImages:
    """What a hub may install, where nothing is to be fetched."""
    trust, around = hub.now.trust, hub.now.around
    space = ArtifactSpace(ArtifactFiles(folder / "artifacts"), around, SpaceSettings(budget=10_000))
    files = Fetching(space, None, ListedFiles(trust, around), hub.store, around, FetchingSettings())
    site = LanFiles(
        LanFilesSettings(host="127.0.0.1", port=0, public="127.0.0.1"),
        around.clock,
        Serving(hub.store, around),
    )
    return CatalogueImages(trust, hub.now.devices, files, site, around.clock)


@pytest.mark.parametrize("fits", [True, False], ids=["there is one", "there is none"])
async def test_a_device_is_taken_back_by_a_file_for_its_own_model_and_hardware_or_not_at_all(
    tmp_path: Path, *, fits: bool
) -> None:
    async with new_hub(tmp_path) as hub:
        devices = hub.now.devices
        known = {"topic": "plug", "model": "PM-1"}
        await devices.admit(PLUG, "tasmota", dict(known), label("x"), actor="uid:0 root")
        told = b'{"StatusFWR":{"Version":"14.1.0(tasmota)","Hardware":"ESP32-D0WD"}}'
        hub.bus.delivers("stat/plug/STATUS2", told)
        await hub.settles()
        others = [
            file(2, frozenset({"PM-2"})),
            file(3, frozenset({"PM-1"}), frozenset({"ESP8266EX"})),
        ]
        await approve(hub, [*others, file(4, frozenset({"PM-1"}))] if fits else others)

        found = images_at(hub, tmp_path).earlier(PLUG, "14.1.0(tasmota)")

        assert (None if found is None else found.sha256) == (OURS if fits else None)
