"""The unit that fetches for an agent, as the service manager has it: a process for each connection.

    with FetchUnit(path) as unit:
        agent.config.write_text(text + unit.section)

The processes are forked warm (``tests.support.warm``), where a child that an agent starts by itself reads all
modules each time. What that child is like, and what the real unit's process, have stories of their own.
"""

import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support import warm
from tests.support.warm import WarmProcess

_QUEUE: Final = 16


class FetchUnit:
    """Listens at a path.

    Attributes:
        section: of the agent's configuration.
    """

    def __init__(self, path: Path) -> None:
        self.section = f'[fetch]\nby = "outside"\nsocket = "{path}"\n'
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(_QUEUE)
        self._serving = threading.Thread(target=self._serve)
        self._started: list[WarmProcess] = []

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who waits in accept() is woken by this, and by closing not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        self._listener.close()
        for process in self._started:
            process.kill()
            process.wait()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                process = warm.start(warm.FETCH, ["edgeagent", "fetch"], stdin=connection.fileno())
            self._started = [*(one for one in self._started if one.poll() is None), process]
