"""huey on SQLite, beside the engine: the job queue that is taken where a database is all there is.

It is set to sync each commit (``fsync``), as the engine does; its workers are threads. What it is asked for
is the least: tasks that do nothing, each put into the queue by a commit of its own, taken by a worker, its
result stored. It knows nothing of signatures, policies, devices, locks, fences, confirmations, receipts or an
audit trail, and a task whose worker is killed is lost. It keeps no past.
"""

import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Final

Figures = dict[str, float]

_PATIENCE: Final = 120.0
_AT_REST: Final = 0.3


def is_installed() -> bool:
    """Whether it is there: it belongs to the extra ``bench``."""
    return importlib.util.find_spec("huey") is not None


class Taken:
    """Notes when tasks were worked."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._more = threading.Condition()

    def note(self) -> None:
        """One was."""
        with self._more:
            self._times.append(time.perf_counter())
            self._more.notify_all()

    def last_of(self, count: int) -> float:
        """When so many were, since the last look.

        Raises:
            TimeoutError: not in time.
        """
        with self._more:
            if not self._more.wait_for(lambda: len(self._times) >= count, _PATIENCE):
                raise TimeoutError(f"{len(self._times)} of {count} tasks were worked")
            last = self._times[count - 1]
            self._times.clear()
            return last


def huey_costs(folder: Path, *, commands: int, wakes: int, idle: float, workers: int) -> Figures:
    """One run, on a new database in ``folder``.

    Returns:
        ``rate`` in tasks a second, ``cpu`` in milliseconds a task, ``wake.p50`` and ``wake.p99`` in
        milliseconds, ``idle`` in percent of a core.
    """
    from huey import SqliteHuey

    taken = Taken()
    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True)

    @huey.task()  # type: ignore[untyped-decorator]  # it has no types
    def work() -> bool:
        taken.note()
        return True

    with _consuming(huey, workers):
        work()
        taken.last_of(1)
        began, used = time.perf_counter(), time.process_time()
        for _ in range(commands):
            work()
        lasted = taken.last_of(commands) - began
        used = time.process_time() - used
        woken = []
        for _ in range(wakes):
            time.sleep(_AT_REST)
            work()
            queued = time.perf_counter()
            woken.append(max(0.0, 1_000 * (taken.last_of(1) - queued)))
        percentiles = quantiles(woken, n=100)
        time.sleep(_AT_REST)
        start, resting = time.perf_counter(), time.process_time()
        time.sleep(idle)
        resting = 100 * (time.process_time() - resting) / (time.perf_counter() - start)
    return {
        "rate": commands / lasted,
        "cpu": 1_000 * used / commands,
        "wake.p50": percentiles[49],
        "wake.p99": percentiles[98],
        "idle": resting,
    }


@contextmanager
def _consuming(huey: "object", workers: int) -> Iterator[None]:
    """Have its workers work, in this process; as its defaults say, but for their number."""
    from huey.consumer import Consumer

    consumer = Consumer(
        huey, workers=workers, periodic=False, worker_type="thread", check_worker_health=False
    )
    # What its ``start`` does but for taking over the process's signals.
    consumer.scheduler.start()
    for _, worker in consumer.worker_threads:
        worker.start()
    try:
        yield
    finally:
        consumer.stop(graceful=True)
