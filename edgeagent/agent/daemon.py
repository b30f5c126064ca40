"""The daemon: from the lock on its state to the last row of the trail."""

import asyncio
import signal
from pathlib import Path

from edgeagent.agent.beginning import NoCrashPoints, make_folders, open_store
from edgeagent.agent.hub import build
from edgeagent.config import Config
from edgeagent.ports.crash import CrashPoints
from edgeagent.store.files import sole_owner


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
        store, damaged = await open_store(config.database)
        try:
            agent = await build(config, path, store, crash or NoCrashPoints(), damaged)
            await agent.run(stop)
        finally:
            await store.close()
