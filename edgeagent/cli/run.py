"""``edgeagent run``."""

import argparse
import faulthandler
import gc

from edgeagent import config as configuration
from edgeagent.cli.lasting import lasting
from edgeagent.cli.words import Nouns


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    run = nouns.add_parser("run", help="run the agent until it is told to stop")
    run.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Next to nothing of what is imported is garbage: a start costs a sixth less, and no later search walks
    # over it.
    gc.disable()
    from edgeagent import logs
    from edgeagent.agent.loading import load_http

    load_http()
    gc.freeze()
    from edgeagent.agent.daemon import run_agent
    from edgeagent.rights import leave_no_core

    # A class with slots is made twice, and the first one is left: 1 MiB of ours.
    gc.collect()
    gc.freeze()
    gc.enable()
    # Whom the watchdog ends (SIGABRT) says first where it stood.
    faulthandler.enable(file=2)
    leave_no_core()
    config = configuration.load(arguments.config)
    logs.set_up(config.log.level)
    return lasting(run_agent(config, arguments.config), "agent ends")
