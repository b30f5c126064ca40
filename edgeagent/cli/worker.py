"""``edgeagent worker``: works the commands of a lane beside the agent, without network."""

import argparse
import faulthandler
from pathlib import Path

from edgeagent import config as configuration
from edgeagent.cli.lasting import lasting
from edgeagent.cli.words import Nouns
from edgeagent.contracts.policy import Tier


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    worker = nouns.add_parser("worker", help="work the commands of a tier beside the agent, without network")
    worker.add_argument("--lane", type=Tier, choices=[Tier.HIGH], required=True, help="whose commands: high")
    worker.add_argument(
        "--socket", type=Path, help="the agent's work socket (default: work.sock in [hub] run_dir)"
    )
    worker.set_defaults(handler=_work)


def _work(arguments: argparse.Namespace) -> int:
    from edgeagent import logs
    from edgeagent.worker import run_worker

    # Whom the watchdog ends (SIGABRT) says first where it stood.
    faulthandler.enable(file=2)
    # Its unit names the socket, so that it need not be let near the configuration.
    if arguments.socket is None:
        config = configuration.load(arguments.config)
        level, path = config.log.level, config.work_socket
    else:
        level, path = "info", arguments.socket
    logs.set_up(level)
    return lasting(run_worker(path, arguments.lane), "worker ends")
