"""The daemon: from the lock on its state to the last row of the trail."""

import asyncio
import logging
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from edgeagent.agent.beginning import NoCrashPoints, make_folders, open_store
from edgeagent.agent.hub import build
from edgeagent.config import Config
from edgeagent.errors import StorageError
from edgeagent.ports.crash import CrashPoints
from edgeagent.store.database import Database
from edgeagent.store.files import sole_owner

log = logging.getLogger(__name__)

_TRY_AGAIN: Final = 5.0


async def _opened(path: Path, stop: asyncio.Event) -> tuple[Database, Path | None] | None:
    """Open the database as soon as the disk takes writes; None when we are told to stop before.

    Were it left to systemd to try again, it would give up after its limit of starts.
    """
    while not stop.is_set():
        try:
            return await open_store(path)
        except StorageError as why:
            log.error("the disk does not let us start", extra={"why": str(why)})  # noqa: TRY400 - no bug
        with suppress(TimeoutError):
            async with asyncio.timeout(_TRY_AGAIN):
                await stop.wait()
    return None


async def run_agent(config: Config, path: Path, *, crash: CrashPoints | None = None) -> None:
    """Run the agent until SIGTERM or SIGINT.

    Args:
        config: what is configured.
        path: where that stands; files that it names lie beside it.
        crash: told at the named points; a test's.

    Raises:
        ConfigurationError: the operator has to act first.
    """
    make_folders(config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with sole_owner(config.hub.state_dir / "agent.lock"):
        opened = await _opened(config.database, stop)
        if opened is None:
            return
        store, damaged = opened
        try:
            agent = await build(config, path, store, crash or NoCrashPoints(), damaged)
            await agent.run(stop)
        finally:
            await store.close()
