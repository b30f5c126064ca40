"""An issuing process: signs a command for each of some devices with its own key, and sends all of them.

    python -m tests.support.issuing URL TOKEN_FILE KEY_FILE HUB DEVICES

``DEVICES`` are names with commas between. It shares nothing with other issuers, no counter and no file. The
id of each command is a line on standard output once the queue has taken it.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

from edgeagent.adapters.cloud.settings import CloudSettings, Token
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.ids import device_id, hub_id
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.commands import Intent, Issuer
from edgeagent.issuer.keys import PrivateKey, load_key

_AT_ONCE: Final = 8


async def _main(url: str, token: Token, key: PrivateKey, hub: str, devices: str) -> None:
    clock = ProvenClock(SystemTime())
    issuer = Issuer([key], clock)
    gate = asyncio.Semaphore(_AT_ONCE)
    async with IssuerClient(CloudSettings(url=url, token=token), clock) as cloud:
        known = await cloud.hub(hub_id(hub))
        assert known.epoch is not None, "the hub has not said hello"
        epoch = known.epoch

        async def order(device: str) -> None:
            meant = Intent(hub=known.hub, epoch=epoch, devices=[device_id(device)], action=ActionName.TOGGLE)
            async with gate:
                taken = await cloud.send(issuer.sign(meant))
            sys.stdout.write(f"{taken.id}\n")
            sys.stdout.flush()

        async with asyncio.TaskGroup() as group:
            for device in devices.split(","):
                group.create_task(order(device))


if __name__ == "__main__":
    _url, _token, _key, *_rest = sys.argv[1:]
    asyncio.run(_main(_url, Token(Path(_token).read_text("utf-8")), load_key(Path(_key)), *_rest))
