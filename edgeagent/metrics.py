"""All instruments, on one registry that is passed in.

No label names a device, command or key: the set of series is fixed at start (SPEC O1, R7).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from edgeagent.contracts.alerts import Alert
from edgeagent.contracts.event import Stream
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.serving import Ended, Turned
from edgeagent.core.blame import Blame
from edgeagent.core.lifecycle import OPEN

_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.25, 1, 5, 30, 120, 600)
_UNUSABLE: Final = (Reason.INVALID_UTF8, Reason.INVALID_PAYLOAD, Reason.UNUSABLE_VALUE, Reason.TOO_LARGE)

# A second series for each counter, with the time at which it was made: twice the text for nothing.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it out


class Metrics:
    """The agent's instruments. Names follow the Prometheus conventions: base units, ``_total``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        count = partial(Counter, namespace="edgeagent", registry=registry)
        gauge = partial(Gauge, namespace="edgeagent", registry=registry)
        times = partial(Histogram, namespace="edgeagent", registry=registry, buckets=_SECONDS)

        self.messages = count("messages", "MQTT messages received.", ["session"])
        self.messages_unusable = count(
            "messages_unusable", "MQTT messages that no reading came of.", ["reason"]
        )
        self.redeliveries = count("redeliveries", "Messages that were sent again and were stored already.")
        self.events = count("events", "Events stored.", ["stream"])
        self.commit_seconds = times("ingest_commit_seconds", "Time that a commit of readings takes.")
        self.commits = gauge("store_commits", "Transactions committed since start.")
        self.store_writable = gauge("store_writable", "Whether the database takes writes.")
        self.store_writable.set(1)
        self.outbox_events = gauge("outbox_events", "Events that wait for the cloud.", ["stream"])
        self.outbox_age = gauge("outbox_oldest_seconds", "Age of the oldest of them.", ["stream"])
        self.outbox_bytes = gauge("outbox_bytes", "Size of their data.", ["stream"])
        self.outbox_refused = gauge(
            "outbox_refused_events", "Events that the cloud refused for good.", ["stream"]
        )
        self.uploads = count("uploads", "Uploads tried.", ["result"])
        self.upload_seconds = times("upload_seconds", "Time that an upload takes.")
        self.link_up = gauge("broker_connected", "Whether a connection to the broker stands.", ["session"])
        self.devices = gauge("devices", "Admitted devices.")
        self._count_commands(count, gauge)
        self._measure_lanes(registry)
        self._make_series()

    def _count_commands(self, count: Callable[..., Counter], gauge: Callable[..., Gauge]) -> None:
        """Make what tells of commands, of people, and of the hub itself."""
        self.commands_admitted = count("commands_admitted", "Commands not refused on arrival.", ["verdict"])
        self.commands_refused = count("commands_refused", "Commands refused on arrival.", ["reason"])
        self.commands_settled = count("commands_settled", "Commands that ended.", ["outcome"])
        self.workers_waiting = gauge("workers_waiting", "Workers beside the agent that wait for a command.")
        self.workers_disbelieved = count(
            "workers_disbelieved", "What such a worker said and the hub had not seen."
        )
        self.stops = gauge("stopped_kinds", "Kinds of command that the kill switch stops.")
        self.breakers = gauge("breakers", "Breakers that are not closed.")
        self.dead_letters = gauge("dead_letters", "Dead letters that wait for a person.", ["blame"])
        self.admin_refused = count("admin_refused", "Requests of people who may not.", ["role"])
        self.shadow_answers = count(
            "shadow_answers", "What the knowledge of a device's state was good for.", ["result"]
        )
        self.revalidations = count("revalidations", "Devices read after a stale command.", ["result"])
        self.late_work = count(
            "late_work", "Work that came back after its lease: a step took longer than it.", ["lane"]
        )
        self.written = gauge("disk_written_bytes", "Bytes that the agent has had written since its start.")
        self.fetches = count("artifact_fetches", "Tries to fetch a file for devices.", ["result"])
        self.artifact_bytes = gauge("artifact_bytes", "Disk that fetched files take, their parts included.")
        self.site_offers = gauge("site_offers", "Offers of a file to a device that stand.")
        self.site_requests = count("site_requests", "Requests for such a file.", ["result"])
        self.site_bytes = count("site_sent_bytes", "Bytes of such files that were sent.")
        self.traces = count("traces", "Traces of commands, for a collector.", ["result"])
        self.alerts = count("alerts", "Alerts raised.", ["alert"])
        self.alerts_standing = gauge("alerts_standing", "Whether an alert stands.", ["alert"])
        self.clock_error = gauge("clock_error_seconds", "How far the clock may be off; -1 when unknown.")

    def _measure_lanes(self, registry: CollectorRegistry) -> None:
        """Make what is measured of each lane."""
        count = partial(Counter, namespace="edgeagent", registry=registry)
        gauge = partial(Gauge, namespace="edgeagent", registry=registry)
        times = partial(Histogram, namespace="edgeagent", registry=registry, buckets=_SECONDS)
        self.retries = count("command_retries", "Tries after the first.", ["lane"])
        self.retry_alerts = count("command_retry_alerts", "Commands tried too often.", ["lane"])
        self.lease_losses = count("lease_losses", "Commands whose holder was gone.", ["lane"])
        self.lane_pending = gauge("lane_pending", "Commands that are not over.", ["lane", "state"])
        self.lane_age = gauge("lane_oldest_seconds", "Age of the oldest of them.", ["lane"])
        self.lock_wait = times("lock_wait_seconds", "Time from arrival to the first claim.", ["lane"])
        self.lock_hold = times("lock_hold_seconds", "Time that a device was locked.", ["lane"])

    def _make_series(self) -> None:
        """Make the series of every label, so that they are there before anything happens."""
        labelled: tuple[tuple[Counter | Gauge | Histogram, Iterable[str]], ...] = (
            (self.messages, Session),
            (self.link_up, Session),
            (self.events, Stream),
            (self.outbox_events, Stream),
            (self.outbox_age, Stream),
            (self.outbox_bytes, Stream),
            (self.outbox_refused, Stream),
            (self.uploads, ("ok", "failed")),
            (self.commands_admitted, ("accept", "hold", "duplicate", "addsignatures")),
            (self.commands_refused, (Reason.REPLAYED,)),
            (self.commands_settled, Outcome),
            *((each, Tier) for each in (self.retries, self.retry_alerts, self.lease_losses, self.late_work)),
            *((each, Tier) for each in (self.lane_age, self.lock_wait, self.lock_hold)),
            (self.shadow_answers, ("hit", "miss", "miss_after_update", "stale")),
            (self.revalidations, ("read", "given_up")),
            (self.messages_unusable, _UNUSABLE),
            (self.dead_letters, Blame),
            (self.site_requests, (*Ended, *Turned)),
            (self.traces, ("sent", "dropped")),
            (self.fetches, ("fetched", *FetchTrouble)),
            (self.alerts, Alert),
            (self.alerts_standing, Alert),
        )
        for instrument, labels in labelled:
            for label in labels:
                instrument.labels(label)
        for lane in Tier:
            for state in OPEN:
                self.lane_pending.labels(lane, state)
