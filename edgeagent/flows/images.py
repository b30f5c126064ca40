"""The files that may be installed here: listed by the catalogue, approved by the policy, fetched, and served.

A file is pinned as long as it is served, and read through the handle that was verified. What was taken back
is found no more, whether it lies here or not.
"""

import asyncio
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Final

from edgeagent.clock import Clock
from edgeagent.core.catalogue import Artifact
from edgeagent.core.gate.artifacts import misfit
from edgeagent.core.versions import Order, compare, has_number_of
from edgeagent.errors import RejectedError, SuspiciousError, TransientError, UnknownError
from edgeagent.flows.appliances import appliance_of
from edgeagent.flows.devices import Device, Devices
from edgeagent.flows.fetching import Fetching
from edgeagent.flows.trust import Trust
from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.ports.artifact_site import MOST_FILES, ArtifactSite, Content, Offer
from edgeagent.ports.artifacts import SignedFile
from edgeagent.ports.firmware import Image, Pickup
from edgeagent.values import dataclass

_AT_ONCE: Final = timedelta(seconds=5)
"""How long a file may take to be at hand; one that has to be fetched is waited for elsewhere."""
_TOKEN_BYTES: Final = 16
_NAME: Final = "firmware"
_SUFFIX: Final = ".bin"


@dataclass(frozen=True, slots=True)
class _Served:
    """What is served for a run."""

    sha256: Digest
    offer: Offer
    pins: AsyncExitStack


class CatalogueImages:
    """See the module's docstring. An ``Images``."""

    def __init__(
        self, trust: Trust, devices: Devices, files: Fetching, site: ArtifactSite, clock: Clock
    ) -> None:
        self._trust = trust
        self._devices = devices
        self._files = files
        self._site = site
        self._clock = clock
        self._served: dict[int, _Served] = {}

    def find(self, artifact: ArtifactId, sha256: Digest) -> Image:
        """A file that may be installed now."""
        found = self._trust.catalogue.listed.get(artifact)
        if found is None or found.sha256 != sha256:
            raise RejectedError(f"nobody signs for {artifact} with that sha256")
        if doubt := self._trust.catalogue.doubt(found):
            raise RejectedError(f"what signs for {artifact} is refused: {doubt}")
        if not self._is_approved(found):
            raise RejectedError(f"{artifact} is not approved")
        return _image(found)

    def earlier(self, device: DeviceId, version: str) -> Image | None:
        """The file that brings a device back to a version; None where none may be installed."""
        admitted = self._devices.get(device)
        if admitted is None:
            return None
        for found in self._for_device(admitted):
            if compare(found.facts.version, version) is Order.SAME:
                return _image(found)
        return None

    async def serve(self, run: int, device: DeviceId, image: Image, pickup: Pickup) -> str:
        """Have a device be able to fetch a file, and what its family fetches before it."""
        held = self._served.get(run)
        is_open = held is not None and held.offer.until > self._clock.boot()
        if held is not None and is_open and held.sha256 == image.sha256:
            return held.offer.url
        await self.withdraw(run)
        pins = AsyncExitStack()
        try:
            async with asyncio.timeout(_AT_ONCE.total_seconds()):
                contents = [
                    await self._content(pins, artifact, name)
                    for name, artifact in self._wanted(device, image)
                ]
            # All of it is read once more, however long that takes: it is as long as the file.
            offer = await self._site.offer(
                device,
                contents[:MOST_FILES],
                until=self._clock.boot() + pickup.lasts,
                address=pickup.address,
                token=_token(pickup.ticket, image.sha256),
            )
        except TimeoutError as why:
            await pins.aclose()
            raise TransientError(f"{image.artifact} is being fetched") from why
        except SuspiciousError as why:
            # No fault of whoever works the update. The next look at it finds it damaged, and fetches it anew.
            await pins.aclose()
            raise TransientError(f"{image.artifact} was changed on the disk") from why
        except BaseException:
            await pins.aclose()
            raise
        self._served[run] = _Served(image.sha256, offer, pins)
        return offer.url

    async def withdraw(self, run: int) -> None:
        """Serve no file for a run any more; nothing where none was."""
        held = self._served.pop(run, None)
        if held is not None:
            await self._site.withdraw(held.offer)
            await held.pins.aclose()

    async def _content(self, pins: AsyncExitStack, artifact: Artifact, name: str) -> Content:
        file = SignedFile(
            artifact=artifact.id, sha256=artifact.sha256, length=artifact.length, path=artifact.path
        )
        handle = await pins.enter_async_context(self._files.use(file))
        return Content(name=name, digest=file.sha256, size=file.length, open_file=partial(os.dup, handle))

    def _wanted(self, device: DeviceId, image: Image) -> Iterator[tuple[str, Artifact]]:
        """The file, and those that go before it where a device has room for one at a time only."""
        found = self._trust.catalogue.listed.get(image.artifact)
        admitted = self._devices.get(device)
        if found is None or admitted is None:
            raise UnknownError(f"nobody signs for {image.artifact}")
        yield f"{_NAME}{_SUFFIX}", found
        recipe = admitted.compiled.profile.firmware
        for mark in () if recipe is None else recipe.interim:
            for other in self._for_device(admitted):
                if mark in other.facts.version and has_number_of(other.facts.version, found.facts.version):
                    yield f"{_NAME}-{mark}{_SUFFIX}", other
                    break

    def _for_device(self, device: Device) -> Iterator[Artifact]:
        """The files that are for a device as it stands there, and may be installed."""
        appliance = appliance_of(device)
        for found in self._trust.catalogue.listed.values():
            floor = self._trust.catalogue.floor_over(found, appliance.model)
            is_sound = floor is None and not self._trust.catalogue.doubt(found)
            if misfit(found, appliance) is None and is_sound and self._is_approved(found):
                yield found

    def _is_approved(self, found: Artifact) -> bool:
        policy = self._trust.policy
        return policy is not None and found.sha256 in policy.artifacts.get(found.id, ())


def _token(ticket: str, sha256: Digest) -> str:
    """What in the address of a file cannot be guessed: of its run and of its bytes, the same every time.

    So a device that tries again where it was told to fetch never gets the bytes of another file.
    """
    made = blake2b(sha256.encode(), key=ticket.encode(), digest_size=_TOKEN_BYTES).digest()
    return urlsafe_b64encode(made).rstrip(b"=").decode()


def _image(found: Artifact) -> Image:
    return Image(artifact=found.id, sha256=found.sha256, version=found.facts.version)
