"""What serves files to devices, built where it is configured."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgeagent import settings
from edgeagent.config import Config
from edgeagent.flows.fetching import Fetching
from edgeagent.flows.images import CatalogueImages
from edgeagent.flows.no_images import NoImages
from edgeagent.flows.serving import Serving
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.worlds import Worlds
from edgeagent.ports.firmware import Images
from edgeagent.store.database import Transaction

if TYPE_CHECKING:
    from edgeagent.adapters.lan_files.site import LanFiles

Words = Callable[[Transaction], None]


def lan_files(config: Config, serving: Serving, around: Surroundings) -> "list[LanFiles]":
    """Build it; it listens once there is an offer. Nothing where devices cannot fetch from this hub."""
    found = settings.lan_files_settings(config)
    if found is None:
        return []
    from edgeagent.adapters.lan_files.site import LanFiles

    return [LanFiles(found, around.clock, serving)]


def images_of(site: "list[LanFiles]", worlds: Worlds, files: Fetching) -> Images:
    """The files that may be installed; none where devices cannot fetch from this hub."""
    if not site:
        return NoImages()
    return CatalogueImages(worlds.trust, worlds.devices, files, site[0], worlds.around.clock)


def both(first: Words, second: Words) -> Words:
    """What writes the last words of two."""

    def write(tx: Transaction) -> None:
        first(tx)
        second(tx)

    return write
