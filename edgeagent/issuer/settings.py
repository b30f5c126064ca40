"""What the queue server is told at its start."""

from dataclasses import field
from datetime import timedelta
from pathlib import Path

from edgeagent.adapters.cloud.settings import is_loopback
from edgeagent.errors import ConfigurationError
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much the server takes.

    Attributes:
        upload_bytes: of an upload as it is sent.
        unpacked_bytes: of an upload after decompression.
        events: in one upload.
        event_bytes: of one event.
        waiting: commands and further envelopes that wait for one hub.
        kept_events: newest events of a state or telemetry stream whose content is kept.
        body_time: for a request's body to arrive.
        uploads_at_once: read and parsed side by side, which bounds the memory; the others wait.
        certificate_lifetime: for which a hub is certified.
        renewal_grace: for how long after its end a certificate still renews itself, and nothing else.
        longest_claim: for which a claim code may be good.
    """

    upload_bytes: int = 1024 * 1024
    unpacked_bytes: int = 4 * 1024 * 1024
    events: int = 2000
    event_bytes: int = 64 * 1024
    waiting: int = 10_000
    kept_events: int = 200_000
    body_time: timedelta = timedelta(seconds=30)
    uploads_at_once: int = 4
    certificate_lifetime: timedelta = timedelta(days=90)
    renewal_grace: timedelta = timedelta(days=90)
    longest_claim: timedelta = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the server listens and what it stands on.

    Attributes:
        host: the address to listen on; without a certificate only this very machine's.
        port: 0 for any free one.
        database: the queue's file; made where it is missing. Beside it lies its lock.
        tokens: who may ask for what; see ``issuer/tokens``.
        certificate: the server's certificate chain, PEM.
        key: its private key, PEM.
        time_key: the key that signs the time; without it the server signs none.
        policy: the envelope of the policy in force, for the producer's gate.
        repository: the policy's repository, for hubs and the producer's gate; in place of ``policy``.
        authority: the folder of the authority that certifies hubs; the server's own certificate is then
            the one in it, unless ``certificate`` names another.
        limits: how much it takes.

    Raises:
        ConfigurationError: tokens would cross the network in the clear, or two settings contradict.
    """

    host: str = "127.0.0.1"
    port: int = 0
    database: Path
    tokens: Path
    certificate: Path | None = None
    key: Path | None = None
    time_key: Path | None = None
    policy: Path | None = None
    repository: Path | None = None
    authority: Path | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.certificate is None and self.authority is None and not is_loopback(self.host):
            raise ConfigurationError(f"{self.host}: without a certificate only a loopback address is served")
        if self.key is not None and self.certificate is None:
            raise ConfigurationError("a key without its certificate")
        if self.policy is not None and self.repository is not None:
            raise ConfigurationError("a policy's file and a repository: which of them is in force?")
