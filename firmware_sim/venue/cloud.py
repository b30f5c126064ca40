"""The cloud of a venue: the reference queue as a process, and the desk from which commands are signed.

It signs the time, and its policy says who may sign what. Keys and logins are made anew for each venue.
What it holds is read over HTTP with an auditor's login: that is the third witness.
"""

import base64
import hashlib
import json
import secrets
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from firmware_sim.fields import Fields, InputError, Json, parse
from firmware_sim.venue.approved import ARTIFACT, FAMILY, VERSION, image
from firmware_sim.venue.children import Child, Children, Finished
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.evidence import Event, Stream
from firmware_sim.venue.loopback import HOST
from firmware_sim.venue.policy import HUB, written

EDGEAGENT: Final = (sys.executable, "-m", "edgeagent")
_STARTING: Final = 20.0
_ANSWERING: Final = ClientTimeout(total=20.0)
_PAGE: Final = 2000
_OK: Final = range(200, 300)
_TYPE: Final = "edgeagent."


@dataclass(frozen=True, slots=True)
class Signed:
    """A command as it was signed.

    Attributes:
        id: the command's.
        envelope: what is sent.
    """

    id: str
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the queue said to a request."""

    status: int
    body: Json

    @property
    def good(self) -> bool:
        """Whether it did what it was asked."""
        return self.status in _OK

    def text(self, name: str) -> str:
        """A text of its body; empty where it has none."""
        value = self.body.get(name) if isinstance(self.body, Mapping) else None
        return value if isinstance(value, str) else ""


class Cloud:
    """See the module's docstring.

    Args:
        folder: for its keys, logins and database.
        children: where its processes belong.
    """

    def __init__(self, folder: Path, children: Children) -> None:
        self.folder = folder
        self.url = ""
        self.keys: dict[str, str] = {}
        """The ids of the keys, by name."""
        self.version = 0
        """Of the policy that was published last."""
        self._reboots: str | Sequence[str] = "*"
        self._children = children
        self._session: ClientSession | None = None
        self._read: dict[Stream, int] = dict.fromkeys(Stream, 0)

    @property
    def repository(self) -> Path:
        """What hubs read: the signed policy, and what is signed of files for devices."""
        return self.folder / "issuer" / "repository"

    def token(self, who: str) -> Path:
        """The file with somebody's login."""
        return self.folder / f"{who}.token"

    async def prepare(self) -> None:
        """Make keys and logins, publish the policy, and sign for the one file that it lists.

        Raises:
            VenueError: one of them is refused.
        """
        self.folder.mkdir()
        (self.folder / "passphrase").touch(mode=0o600)
        (self.folder / "passphrase").write_text(f"{secrets.token_hex()}\n", "utf-8")
        for name, role in (("hub", f"hub:{HUB}"), ("issuer", "issuer"), ("audit", "audit")):
            made = await self.call("token", "new", name, role, "--tokens", str(self.folder / "tokens.toml"))
            self.token(name).touch(mode=0o600)
            self.token(name).write_text(made.out, "utf-8")
        # The keys that the policy names are made with it.
        await self._change("init", str(self.folder / "issuer"), "--policy", str(self._written()))
        self.keys = {name: _id_of(self.folder / f"{name}.pem.pub") for name in ("desk", "supplier")}
        await self._change("artifact", "role", "add", FAMILY, "--for", FAMILY, *self._issuer)
        file = self.folder / f"{ARTIFACT}.bin"
        file.write_bytes(image())
        words = ("--id", ARTIFACT, "--group", FAMILY, "--family", FAMILY, "--model", "*")
        await self._change("artifact", "add", str(file), *words, "--version", VERSION, *self._issuer)

    async def publish(self, *, reboots: Sequence[str]) -> None:
        """Publish another policy.

        Args:
            reboots: the devices that the desk may reboot.

        Raises:
            VenueError: it is refused.
        """
        self._reboots = reboots
        await self._change("policy", "publish", str(self._written()), *self._issuer)

    async def start(self) -> Child:
        """Start the queue, and return once it listens.

        Raises:
            VenueError: it does not start.
        """
        places = ("--database", self.folder / "queue.db", "--tokens", self.folder / "tokens.toml")
        trust = ("--time-key", self.folder / "clock.pem", "--repository", self.repository)
        words = ["serve", "--listen", f"{HOST}:0", *map(str, places + trust)]
        child = await self._children.start("cloud", [*EDGEAGENT, "issuer", *words], talks=True)
        told = await child.line(within=_STARTING)
        self.url = f"http://{told.split()[-1]}"
        token = self.token("audit").read_text("utf-8").strip()
        self._session = ClientSession(
            headers={"Authorization": f"Bearer {token}"}, timeout=_ANSWERING, raise_for_status=False
        )
        return child

    async def close(self) -> None:
        """Read nothing more."""
        if self._session is not None:
            await self._session.close()

    async def call(self, *words: str, given: bytes = b"") -> Finished:
        """``edgeagent issuer …``.

        Raises:
            VenueError: it does not end well.
        """
        finished = await self._children.run([*EDGEAGENT, "issuer", *words], given=given)
        if finished.status:
            raise VenueError(f"edgeagent issuer {' '.join(words[:2])}: {finished.err.strip()}")
        return finished

    @property
    def _issuer(self) -> tuple[str, str]:
        return "--folder", str(self.folder / "issuer")

    def _written(self) -> Path:
        """The next version of the policy, as a file."""
        self.version += 1
        file = self.folder / "policy.toml"
        file.write_text(written(self.version, reboots=self._reboots), "utf-8")
        return file

    async def _change(self, *words: str) -> None:
        """``edgeagent issuer …`` with the offline keys."""
        await self.call(*words, "--passphrase-file", str(self.folder / "passphrase"))

    async def sign(self, device: str, action: str, *further: str, key: str = "desk") -> Signed:
        """Sign a command at the desk, or with another key; ``further`` are its arguments and options.

        ``device`` may be a list, with commas between.

        Raises:
            VenueError: it is refused.
        """
        login = ("--queue", self.url, "--token-file", str(self.token("issuer")))
        words = (device, action, *further, "--hub", HUB, "--key", str(self.folder / f"{key}.pem"), *login)
        envelope = (await self.call("command", "sign", *words)).out.strip().encode()
        return Signed(_command_in(envelope), envelope)

    async def send(self, signed: Signed) -> Answer:
        """Put a signed command into the queue, as any backend may."""
        token = self.token("issuer").read_text("utf-8").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return await self._ask("POST", "commands", body=signed.envelope, headers=headers)

    async def command(self, id_: str) -> Answer:
        """Where a command stands, by what the queue knows."""
        return await self._ask("GET", f"commands/{id_}")

    async def news(self, stream: Stream) -> list[Event]:
        """The events of a stream that have come since it was last asked."""
        found: list[Event] = []
        while True:
            query = f"events?stream={stream}&after={self._read[stream]}&most={_PAGE}"
            answer = await self._ask("GET", query)
            if not answer.good:
                return found  # the hub has not said hello yet
            page = [_event(fields) for fields in Fields(answer.body, "events").items("events")]
            found += page
            if page:
                self._read[stream] = page[-1].number
            if len(page) < _PAGE:
                return found

    async def versions(self) -> Counter[str]:
        """The version of the state of each device that it knows; 0 while it has heard of none."""
        answer = await self._ask("GET", "devices")
        versions: Counter[str] = Counter()
        for fields in Fields(answer.body, "devices").items("devices"):
            version = fields.take("version") if fields.has("version") else None
            versions[fields.text("device")] = version if isinstance(version, int) else 0
        return versions

    async def _ask(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        assert self._session is not None, "the cloud is not started"  # noqa: S101 - our own mistake
        url = f"{self.url}/v1/hubs/{HUB}/{path}"
        try:
            async with self._session.request(method, url, data=body, headers=headers) as answer:
                return Answer(answer.status, parse(await answer.read(), path))
        except (ClientError, TimeoutError, InputError) as why:
            raise VenueError(f"the cloud does not answer: {type(why).__name__} {why}") from why


def _event(fields: Fields) -> Event:
    data = fields.take("data")
    return Event(
        id=fields.text("id"),
        type=fields.text("type").removeprefix(_TYPE),
        device=fields.text("subject", "") if fields.has("subject") else "",
        data=data if isinstance(data, Mapping) else {},
    )


def _command_in(envelope: bytes) -> str:
    payload = base64.b64decode(Fields(parse(envelope, "envelope"), "envelope").text("payload"))
    command: Json = json.loads(payload)
    return Fields(command, "command").text("id")


def _id_of(file: Path) -> str:
    """The id of a public key: the sha256 of its 32 bytes, which end what its file holds (RFC 8410)."""
    _, body, _ = file.read_text("utf-8").split("-----\n", 2)
    return hashlib.sha256(base64.b64decode(body.partition("-")[0])[-32:]).hexdigest()
