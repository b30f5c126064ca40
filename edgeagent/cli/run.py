"""``edgeagent run``."""

import argparse

from edgeagent import config as configuration
from edgeagent.cli.lasting import lasting
from edgeagent.cli.words import Nouns


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    run = nouns.add_parser("run", help="run the agent until it is told to stop")
    run.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from edgeagent import logs
    from edgeagent.agent.daemon import run_agent

    config = configuration.load(arguments.config)
    logs.set_up(config.log.level)
    return lasting(run_agent(config, arguments.config), "agent ends")
