"""All instruments, on one registry that is passed in.

No label names a device, command or key: the set of series is fixed at start (SPEC O1, R7).
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reasons import Reason

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.25, 1, 5, 30, 120, 600)


class Metrics:
    """The agent's instruments. Names follow the Prometheus conventions: base units, ``_total``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

        self.messages = Counter(
            "edgeagent_messages", "MQTT messages received.", ["session"], registry=registry
        )
        self.messages_unusable = Counter(
            "edgeagent_messages_unusable",
            "MQTT messages that no reading came of.",
            ["reason"],
            registry=registry,
        )
        self.redeliveries = Counter(
            "edgeagent_redeliveries",
            "Messages that the broker sent again and that were stored already.",
            registry=registry,
        )
        self.events = Counter("edgeagent_events", "Events stored.", ["stream"], registry=registry)
        self.commit_seconds = Histogram(
            "edgeagent_ingest_commit_seconds",
            "Time that a commit of readings takes.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.commits = Gauge(
            "edgeagent_store_commits", "Transactions committed since start.", registry=registry
        )
        self.outbox_events = Gauge(
            "edgeagent_outbox_events",
            "Events that the cloud has not acknowledged.",
            ["stream"],
            registry=registry,
        )
        self.outbox_age = Gauge(
            "edgeagent_outbox_oldest_seconds", "Age of the oldest of them.", ["stream"], registry=registry
        )
        self.uploads = Counter("edgeagent_uploads", "Uploads tried.", ["result"], registry=registry)
        self.upload_seconds = Histogram(
            "edgeagent_upload_seconds", "Time that an upload takes.", registry=registry, buckets=_SECONDS
        )
        self.link_up = Gauge(
            "edgeagent_broker_connected",
            "Whether a connection to the broker stands.",
            ["session"],
            registry=registry,
        )
        self.devices = Gauge("edgeagent_devices", "Admitted devices.", registry=registry)
        self.commands_admitted = Counter(
            "edgeagent_commands_admitted",
            "Commands that came and were not refused.",
            ["verdict"],
            registry=registry,
        )
        self.commands_refused = Counter(
            "edgeagent_commands_refused", "Commands refused when they came.", ["reason"], registry=registry
        )
        self.commands_settled = Counter(
            "edgeagent_commands_settled", "Commands that ended.", ["outcome"], registry=registry
        )
        self.retries = Counter("edgeagent_command_retries", "Tries after the first.", registry=registry)
        self.shadow_answers = Counter(
            "edgeagent_shadow_answers",
            "Answers from what is known of a device: hit, miss, stale.",
            ["result"],
            registry=registry,
        )
        self.clock_error = Gauge(
            "edgeagent_clock_error_seconds",
            "How far the clock may be off; -1 when unknown.",
            registry=registry,
        )
        for session in Session:
            self.messages.labels(session)
            self.link_up.labels(session)
        for stream in Stream:
            self.events.labels(stream)
            self.outbox_events.labels(stream)
            self.outbox_age.labels(stream)
        for reason in (Reason.INVALID_UTF8, Reason.INVALID_PAYLOAD, Reason.UNUSABLE_VALUE, Reason.TOO_LARGE):
            self.messages_unusable.labels(reason)
