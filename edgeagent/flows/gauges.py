"""Gauges that are asked for rather than kept: brought up to date when somebody looks."""

from datetime import datetime
from pathlib import Path
from typing import Final

from edgeagent.clock import Wall
from edgeagent.contracts.reports.status import OutboxReport
from edgeagent.metrics import Metrics

_OF_THIS_PROCESS: Final = Path("/proc/self/io")
_WRITTEN: Final = "write_bytes: "


def set_outbox(metrics: Metrics, report: OutboxReport, now: datetime) -> None:
    """Say how much waits for the cloud, and since when."""
    for stream, depth in report.streams.items():
        age = 0.0 if depth.oldest is None else (now - depth.oldest).total_seconds()
        metrics.outbox_events.labels(stream).set(depth.events)
        metrics.outbox_age.labels(stream).set(max(0.0, age))
        metrics.outbox_bytes.labels(stream).set(depth.bytes)
        metrics.outbox_refused.labels(stream).set(depth.refused)


def set_clock(metrics: Metrics, wall: Wall) -> None:
    """Say how far the clock may be off."""
    metrics.clock_error.set(-1 if wall.error is None else wall.error.total_seconds())


def set_written(metrics: Metrics) -> None:
    """Say how much the kernel has written for us (proc(5)); left alone where it does not tell."""
    try:
        lines = _OF_THIS_PROCESS.read_text("ascii").splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith(_WRITTEN):
            metrics.written.set(int(line.removeprefix(_WRITTEN)))
