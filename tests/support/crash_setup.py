"""A set-up that ends itself with SIGKILL: when it passes a named point, or when it has made a step.

    python -m tests.support.crash_setup FOLDER WHERE BROKER_PORT < CODE

The product has no variable and no flag for this: here the same ``Setup`` is given another observer.
"""

import getpass
import os
import signal
import sys
from pathlib import Path

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.claim import read_claim
from edgeagent.setup.broker_step import see_to_broker
from edgeagent.setup.claiming import Claiming
from edgeagent.setup.configuration import Choices
from edgeagent.setup.places import places
from edgeagent.setup.steps import Setup


def main(folder: Path, where: str, broker: int, code: str) -> None:
    """Set up below a folder, and die there."""

    def passed(name: str) -> None:
        if name == where:
            os.kill(os.getpid(), signal.SIGKILL)

    everywhere = places(
        folder / "etc" / "config.toml",
        state_dir=folder / "state",
        run_dir=folder / "run",
        user=getpass.getuser(),
    )
    claiming = Claiming(read_claim(code), everywhere, ProvenClock(SystemTime()), reached=passed)
    setup = Setup(
        claiming=claiming,
        choices=Choices(broker=f"[broker]\nport = {broker}\n"),
        broker=lambda is_dry: see_to_broker(everywhere.config, None, is_dry=is_dry),
        services=None,
    )
    for step in setup.run(is_dry=False):
        passed(step.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.stdin.read())
