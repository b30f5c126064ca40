"""The queue server as a process of its own, to be killed and started again on the same port and file.

with QueueServer(tmp_path) as server:
    hub = server.new_hub("venue-7")
    ...
    server.kill()
    server.start()
"""

import os
import resource
import select
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic import TypeAdapter

from edgeagent.adapters.cloud.settings import CloudSettings, Token
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.ids import HubId, hub_id
from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.server import run
from edgeagent.issuer.settings import Limits, ServerSettings
from edgeagent.issuer.tokens import entry_text, new_token
from tests.support import warm
from tests.support.brokers import free_port
from tests.support.warm import WarmProcess

_DEADLINE: Final = 120.0
_SETTINGS: Final = TypeAdapter(ServerSettings)


@dataclass(frozen=True, slots=True)
class KnownHub:
    """A hub that the server knows, with its token."""

    id: HubId
    token: str


class QueueServer:
    """One server. Its files lie in ``folder``; it is started on entering and killed on leaving.

    Attributes:
        time_key: signs its time statements.
        issuer_token: of an issuer.
        audit_token: of an auditor.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        policy: bytes | None = None,
        repository: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        authority: Path | None = None,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._policy = policy
        self._repository = repository
        self._certificate = certificate
        self._authority = authority
        self._process: WarmProcess | None = None
        self._hubs = 0
        # Its own while it is down, too: not one of those that the kernel gives to whoever asks.
        self.port = free_port()
        self.time_key = PrivateKey.new()
        self.issuer_token = new_token()
        self.audit_token = new_token()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        save_key(self.time_key, self._folder / "time.pem")
        tokens = entry_text("desk", "issuer", self.issuer_token)
        self._tokens.write_text(tokens + entry_text("auditor", "audit", self.audit_token))
        if self._policy is not None:
            (self._folder / "policy.json").write_bytes(self._policy)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """Its address."""
        is_plain = self._certificate is None and self._authority is None
        scheme, host = ("http", "127.0.0.1") if is_plain else ("https", "localhost")
        return f"{scheme}://{host}:{self.port}"

    @property
    def database(self) -> Path:
        """Its file."""
        return self._folder / "queue.db"

    @property
    def log(self) -> str:
        """Everything that it has logged in all its lives."""
        return (self._folder / "server.log").read_text()

    def new_hub(self, name: str | None = None) -> KnownHub:
        """Let another hub in, while the server runs."""
        self._hubs += 1
        hub, token = hub_id(name or f"hub-{self._hubs}"), new_token()
        # In one step: the server may look at the file at any time.
        renewed = self._tokens.with_suffix(".new")
        renewed.write_text(self._tokens.read_text() + entry_text(hub, f"hub:{hub}", token))
        renewed.replace(self._tokens)
        return KnownHub(hub, token)

    def settings(self, token: str, **further: timedelta | int | Path) -> CloudSettings:
        """How to reach it with a token."""
        return CloudSettings(url=self.url, token=Token(token), **further)  # type: ignore[arg-type]

    def start(self, limits: Limits | None = None) -> None:
        """Start it, and wait until it takes requests; with other limits from now on, if there are any."""
        self._limits = limits or self._limits
        read, write = os.pipe()
        settings = _SETTINGS.dump_json(self._settings()).decode()
        with (self._folder / "server.log").open("ab") as log:
            words = ["tests.support.queue_server", settings]
            self._process = warm.start(warm.QUEUE, words, stdout=write, stderr=log.fileno())
        os.close(write)
        try:
            ready, _, _ = select.select([read], [], [], _DEADLINE)
            told = os.read(read, 16) if ready else b""
        finally:
            os.close(read)
        if not told:
            self.kill()
            raise AssertionError(f"the server does not start:\n{self.log}")
        self.port = int(told)

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end: SIGTERM.

        Returns:
            Its exit status.
        """
        return self._end(signal.SIGTERM)

    def disk_is_full(self) -> None:
        """From now on none of its files grows."""
        log = self.database.with_name(self.database.name + "-wal")
        # What is stored goes into the log first, whichever of the two is larger.
        self._limit_files(log.stat().st_size)

    def disk_has_room(self) -> None:
        """Its files may grow again."""
        self._limit_files(resource.RLIM_INFINITY)

    @property
    def _tokens(self) -> Path:
        return self._folder / "tokens.toml"

    def _settings(self) -> ServerSettings:
        certificate, key = self._certificate or (None, None)
        return ServerSettings(
            port=self.port,
            database=self.database,
            tokens=self._tokens,
            time_key=self._folder / "time.pem",
            policy=None if self._policy is None else self._folder / "policy.json",
            repository=self._repository,
            authority=self._authority,
            certificate=certificate,
            key=key,
            limits=self._limits,
        )

    def _limit_files(self, size: int) -> None:
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(_DEADLINE)


def _main(settings: bytes) -> None:
    def listening(port: int) -> None:
        os.write(1, str(port).encode())
        # Whatever else it might print is logged.
        os.dup2(2, 1)

    run(_SETTINGS.validate_json(settings), ProvenClock(SystemTime()), listening=listening)


if __name__ == "__main__":
    _main(sys.argv[1].encode())
