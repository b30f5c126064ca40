"""The fleet as a process of its own, ended by its own id."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from firmware_sim.fields import Json
from tests.support import warm
from tests.support.brokers import Mosquitto


class FleetProcess:
    """A running process.

    Args:
        arguments: of its command line.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.process = warm.start(
            warm.FLEET,
            ["firmware_sim", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.appliances: list[dict[str, Json]] = []

    def line(self) -> dict[str, Json]:
        """Its next line."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.errors()
        value = json.loads(text)
        assert isinstance(value, dict)
        return value

    def errors(self) -> str:
        """What it complains of, at its end."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def until_ready(self) -> None:
        """Take the lines of its start."""
        while "ready" not in (line := self.line()):
            described = line["appliance"]
            assert isinstance(described, dict)
            self.appliances.append(described)

    def asked(self, line: str) -> dict[str, Json]:
        """Send a control line and take the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.line()

    def does(self, verb: str, appliance: str = "*", **more: Json) -> dict[str, Json]:
        """Ask for something that is known to work."""
        answer = self.asked(json.dumps({"do": verb, "appliance": appliance, **more}))
        assert answer["ok"] is True, answer
        return answer

    def state(self, appliance: str) -> dict[str, Json]:
        """What is true of one appliance."""
        done = self.does("state", appliance)["done"]
        assert isinstance(done, dict)
        state = done[appliance]
        assert isinstance(state, dict)
        return state


@contextmanager
def fleet(broker: Mosquitto, *arguments: str) -> Iterator[FleetProcess]:
    """A process that is ready; ended by its own id."""
    with started(f"127.0.0.1:{broker.port}", "--period", "1h", *arguments) as running:
        running.until_ready()
        yield running


@contextmanager
def started(broker: str, *arguments: str) -> Iterator[FleetProcess]:
    """A process."""
    running = FleetProcess(["--broker", broker, *arguments])
    try:
        yield running
    finally:
        with running.process:
            running.process.kill()
