"""``edgeagent run``."""

import argparse
import asyncio
import logging
from typing import Final

from edgeagent import config as configuration
from edgeagent.cli.words import Nouns
from edgeagent.errors import AgentError

EXIT_BROKEN: Final = 1
log = logging.getLogger(__name__)


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    run = nouns.add_parser("run", help="run the agent until it is told to stop")
    run.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from edgeagent import logs
    from edgeagent.agent.daemon import run_agent

    config = configuration.load(arguments.config)
    logs.set_up(config.log.level)
    try:
        asyncio.run(run_agent(config, arguments.config))
    except AgentError:
        raise
    except Exception as why:
        # As a line of the log: a traceback as Python prints it repeats foreign text as it came.
        log.critical("agent ends", exc_info=why)
        return EXIT_BROKEN
    return 0
