"""A hub that has no files for devices: nothing is installed there."""

from edgeagent.errors import RejectedError
from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.ports.firmware import Image, Pickup


class NoImages:
    """None at all. An ``Images``."""

    def find(self, artifact: ArtifactId, sha256: Digest) -> Image:
        """There is none."""
        raise RejectedError(f"this hub serves no files: neither {artifact} nor {sha256[:12]}…")

    def earlier(self, device: DeviceId, version: str) -> None:
        """There is none."""
        del device, version

    async def serve(self, run: int, device: DeviceId, image: Image, pickup: Pickup) -> str:
        """Nothing is served."""
        del run, device, pickup
        raise RejectedError(f"this hub serves no files, not {image.artifact}")

    async def withdraw(self, run: int) -> None:
        """Nothing was served."""
        del run
