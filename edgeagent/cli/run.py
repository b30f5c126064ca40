"""``edgeagent run``."""

import argparse
import gc

from edgeagent import config as configuration
from edgeagent.cli.lasting import lasting
from edgeagent.cli.words import Nouns


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    run = nouns.add_parser("run", help="run the agent until it is told to stop")
    run.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    # None of what is imported is garbage: a start costs a sixth less, and no later search walks over it.
    gc.disable()
    from edgeagent import logs
    from edgeagent.agent.daemon import run_agent

    gc.freeze()
    gc.enable()
    config = configuration.load(arguments.config)
    logs.set_up(config.log.level)
    return lasting(run_agent(config, arguments.config), "agent ends")
