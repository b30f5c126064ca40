"""The daemon: from the lock on its state to the last row of the trail."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from edgeagent.adapters.fetcher.inside import clear_left
from edgeagent.adapters.systemd import ServiceManager
from edgeagent.agent.beginning import NoCrashPoints, make_folders, open_store
from edgeagent.agent.hub import build
from edgeagent.agent.running import Agent
from edgeagent.agent.starting import Starting, starting
from edgeagent.clock import SystemTime
from edgeagent.config import Config
from edgeagent.errors import StorageError, TransientError
from edgeagent.ports.crash import CrashPoints
from edgeagent.rights import refuse_root
from edgeagent.settings import fetching_folder
from edgeagent.store.database import Database
from edgeagent.store.files import HeldError, sole_owner

log = logging.getLogger(__name__)

T = TypeVar("T")
_TRY_AGAIN: Final = 5.0


class _OccupiedError(TransientError):
    """Another edgeagent works on the state, such as a backup typed while no agent ran."""


async def _patiently(begin: Callable[[], Awaitable[T]], stop: asyncio.Event, start: Starting) -> T | None:
    """Begin as soon as the disk takes writes and nobody holds it; None when we are told to stop before.

    Were it left to systemd to try again, each try would wear the disk with a start of its own.
    """
    told = ""
    while not stop.is_set():
        try:
            return await begin()
        except (StorageError, _OccupiedError) as why:
            words = f"the disk does not let us start: {why}" if isinstance(why, StorageError) else str(why)
            if told != (told := words):
                log.error("the start waits", extra={"why": told})  # noqa: TRY400 - no bug
            if not start.waits(told):
                raise
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
    refuse_root(config.hub.state_dir)
    make_folders(config)
    stop = asyncio.Event()
    # Until the agent can read its configuration again, to be asked to must not end it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with ExitStack() as held:
        begun = await _begin(config, path, crash or NoCrashPoints(), stop, held)
        if begun is None:
            return
        agent, store = begun
        try:
            await agent.run(stop)
        finally:
            await store.close()


async def _begin(
    config: Config, path: Path, crash: CrashPoints, stop: asyncio.Event, held: ExitStack
) -> tuple[Agent, Database] | None:
    """Take the lock, which ``held`` keeps, open the database and build the agent; None when told to stop."""
    manager = ServiceManager.from_environment()

    async def locked() -> bool:
        try:
            held.enter_context(sole_owner(config.hub.state_dir / "agent.lock"))
        except HeldError as why:
            # Its exit status is final for a unit: a backup that was running would end the agent for good.
            if manager.listens:
                raise _OccupiedError(str(why)) from why
            raise
        return True

    async with starting(manager, SystemTime().boot) as start:
        start.at("the database")
        if await _patiently(locked, stop, start) is None:
            return None
        await asyncio.to_thread(clear_left, fetching_folder(config))
        opened = await _patiently(partial(open_store, config.database), stop, start)
        if opened is None:
            return None
        store, damaged = opened
        start.at("what is stored")
        try:
            return await build(config, path, store, crash, damaged), store
        except BaseException:
            await store.close()
            raise
