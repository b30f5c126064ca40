"""One system with everything around it, made anew for each measurement.

load ──> mosquitto ──> tap ──> agent or reference ──> sink
"""

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.native import Load, Sent, Tap, Tools
from bench.processes import Watch
from bench.queue_sink import QueueSink
from bench.sink import Sink, Tally
from bench.systems import DEVICES, AgentUnderTest, Lingers, Place, ReferenceUnderTest, System
from tests.support.brokers import Mosquitto, wait_until

QUIET_BROKER: Final = (
    "max_queued_messages 0",
    "max_inflight_messages 500",
    "set_tcp_nodelay true",
    "log_type none",
    "log_type error",
    "log_type warning",
    "log_type information",
)
"""Lines of mosquitto's configuration. Debian's defaults drop QoS 1 beyond 1,000 queued messages; nothing may
be lost in the broker here."""
_PATIENCE: Final = 120.0
_POLL: Final = 0.02


class Rig:
    """See the module's docstring. Entering starts everything and lets every device be heard once.

    Args:
        kind: which system.
        folder: for all files.
        tools: the compiled instruments.
        lingers: how long the system may wait.
        window: how many messages the broker leaves unacknowledged; 0 for what the system asks for.
        queue: whether the real queue server stands in the sink's place.

    Attributes:
        system: what is measured.
        sink: where it uploads to.
        tap: what its acknowledgements are measured with.
    """

    def __init__(
        self,
        kind: type[AgentUnderTest | ReferenceUnderTest],
        folder: Path,
        tools: Tools,
        lingers: Lingers,
        *,
        window: int = 0,
        queue: bool = False,
    ) -> None:
        self._kind = kind
        self._folder = folder
        self._tools = tools
        self._lingers = lingers
        self._window = window
        self._broker = Mosquitto(folder / "broker", options=QUIET_BROKER)
        self._next = 0
        self._stack = ExitStack()
        self.sink: Sink | QueueSink = QueueSink(folder / "queue") if queue else Sink()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._broker)
            stack.enter_context(self.sink)
            self.tap = stack.enter_context(Tap(self._tools.tap, self._broker.port, self._window))
            place = Place(
                folder=self._folder / "system",
                tools=self._tools,
                broker_port=self.tap.port,
                cloud_port=self.sink.port,
                token=self.sink.token,
                lingers=self._lingers,
            )
            self.system: System = self._kind(place)
            stack.callback(self.system.close)
            self._begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def watch(self) -> Watch:
        """The system's process."""
        return self.system.watch

    def load(self, count: int, *, rate: float = 0.0) -> Load:
        """Begin to publish, under numbers that were not used before."""
        first, self._next = self._next, self._next + count
        return Load(self._tools.load, self._broker.port, count, rate=rate, first=first, folder=self._folder)

    def measured(self, count: int, *, rate: float = 0.0) -> Sent:
        """Publish, and wait until all of it is uploaded; tap and sink measure it alone."""
        self.tap.reset()
        self.sink.reset()
        sent = self.load(count, rate=rate).finish()
        self.wait_for(count)
        return sent

    def wait_for(self, count: int) -> Tally:
        """Wait until so many numbers have come to the sink since its reset.

        Raises:
            TimeoutError: they did not.
        """
        deadline = time.monotonic() + _PATIENCE
        while (tally := self.sink.tally()).count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{tally.count} of {count} messages arrived")
            time.sleep(_POLL)
        return tally

    def wait_until_heard(self) -> None:
        """Publish, one by one, until one of them has come to the sink; for a system that starts again."""
        first = self._next

        def has_come() -> bool:
            self.load(1).finish()
            return any(number >= first for number in self.sink.times())

        wait_until(has_come, "a message at the cloud", within=_PATIENCE)

    def _begin(self) -> None:
        """Start the system, and send each device's first message, which tells more than the next ones."""
        self.system.launch()
        self.system.meet()
        wait_until(self._has_come, "the first message at the cloud", within=_PATIENCE)
        self.measured(4 * DEVICES)

    def _has_come(self) -> bool:
        """Whether anything has gone all the way; one that is not subscribed yet hears nothing."""
        self.load(1).finish()
        return self.sink.tally().count > 0
