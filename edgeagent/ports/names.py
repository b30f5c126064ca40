"""What people at the hub call things by."""

from typing import Protocol

from edgeagent.ids import CommandId, DeviceId


class Names(Protocol):
    """Completes ids of which people have typed the beginning.

    What nothing begins with comes back as it was typed: whoever looks for it says that there is none.
    """

    async def command(self, typed: str) -> CommandId:
        """The id of a command that has come.

        Raises:
            MalformedError: it is the beginning of no id.
            AmbiguousError: it is the beginning of several.
        """
        ...

    async def device(self, typed: str) -> DeviceId:
        """The id of a device that is admitted. Raises as ``command``."""
        ...
