"""The agent that ends itself with SIGKILL when it passes a named point for the nth time.

    python -m tests.support.crash_agent CONFIG POINT NTH

The product has no variable and no flag for this: here the same ``run_agent`` is given another observer.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from edgeagent import config, logs
from edgeagent.agent.daemon import run_agent
from edgeagent.ports.crash import CrashPoint


class Killer:
    """Ends this process at one passing of one point. A ``CrashPoints``.

    Args:
        point: which point.
        nth: at which passing, from 1.
    """

    def __init__(self, point: CrashPoint, nth: int) -> None:
        self._point = point
        self._left = nth

    def reached(self, point: CrashPoint) -> None:
        """Count a passing."""
        if point is self._point:
            self._left -= 1
            if self._left == 0:
                # Nothing runs after this: no handler, no flush, no rollback.
                os.kill(os.getpid(), signal.SIGKILL)


def main(path: Path, point: CrashPoint, nth: int) -> None:
    """Run the agent until it dies, or is told to stop."""
    configured = config.load(path)
    logs.set_up(configured.log.level)
    asyncio.run(run_agent(configured, path, crash=Killer(point, nth)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), CrashPoint(sys.argv[2]), int(sys.argv[3]))
