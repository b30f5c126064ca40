"""Who may ask the queue for what: bearer tokens and their roles.

The file holds the sha256 of each token, never a token, so that reading it lets nobody in:

    [[tokens]]
    name = "venue-7"
    role = "hub:venue-7"      # or "issuer", "audit"
    sha256 = "..."

A token is 256 bits of chance, so that a plain hash of it cannot be searched. The file is read anew when
it changes; a changed file that is not in order leaves the earlier tokens in force.
"""

import hmac
import json
import logging
import os
import secrets
import tomllib
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from edgeagent.contracts.door import Contract, decode
from edgeagent.contracts.scalars import DigestField, LabelField
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import HubId, hub_id
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

TOKENS_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of the file: some 25,000 tokens."""

_HUB_ROLE: Final = "hub:"


class Role(StrEnum):
    """What the holder of a token is to the queue."""

    HUB = "hub"
    """One hub: uploads its events, takes its commands, asks the time."""
    ISSUER = "issuer"
    """Puts commands in, and reads everything."""
    AUDIT = "audit"
    """Reads everything, changes nothing."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a token stands for.

    Attributes:
        name: for people, logs and counts.
        role: what it may do.
        hub: which hub it is; of role ``hub``.
    """

    name: str
    role: Role
    hub: HubId | None


class TokenEntry(Contract):
    """One token of the file."""

    name: LabelField
    role: Annotated[str, StringConstraints(pattern=r"^(issuer|audit|hub:[A-Za-z0-9_-]{1,64})$")]
    sha256: DigestField

    def principal(self) -> Principal:
        """Whom it stands for."""
        if self.role.startswith(_HUB_ROLE):
            return Principal(self.name, Role.HUB, hub_id(self.role.removeprefix(_HUB_ROLE)))
        return Principal(self.name, Role(self.role), None)


class Tokens(Contract):
    """The file's content."""

    tokens: list[TokenEntry] = Field(default_factory=list)


def new_token() -> str:
    """Make a token: 256 bits of chance in base64url."""
    return secrets.token_urlsafe(32)


def digest_of_token(token: str) -> str:
    """What the file holds of a token."""
    return sha256(token.encode()).hexdigest()


def entry_text(name: str, role: str, token: str) -> str:
    """Write an entry for the file.

    Raises:
        MalformedError: no such role, or a name that is no label.
    """
    fields = {"name": name, "role": role, "sha256": digest_of_token(token)}
    entry = decode(TokenEntry, json.dumps(fields).encode(), limit=TOKENS_BYTES)
    quoted = json.dumps(entry.name, ensure_ascii=False)  # a JSON string of printable text is a TOML string
    return f'[[tokens]]\nname = {quoted}\nrole = "{entry.role}"\nsha256 = "{entry.sha256}"\n'


def read_tokens(text: bytes) -> Tokens:
    """Read the file's content.

    Raises:
        MalformedError: it is not the TOML that is described above; the message names the place.
    """
    try:
        fields = tomllib.loads(text.decode())
        written = json.dumps(fields).encode()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, TypeError) as why:
        raise MalformedError(f"not TOML of tokens: {why}") from why
    tokens = decode(Tokens, written, limit=2 * TOKENS_BYTES)
    if len({entry.sha256 for entry in tokens.tokens}) != len(tokens.tokens):
        raise MalformedError("one token stands twice")
    return tokens


class TokenFile:
    """The tokens in force."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._known: list[tuple[bytes, Principal]] = []

    def load(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: it is missing or not in order.
        """
        try:
            with self._path.open("rb") as file:
                stat = os.fstat(file.fileno())
                tokens = read_tokens(file.read(TOKENS_BYTES + 1))
        except OSError as why:
            raise ConfigurationError(f"{self._path}: {why.strerror}") from why
        except MalformedError as why:
            raise ConfigurationError(f"{self._path}: {why}") from why
        self._mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        self._known = [(entry.sha256.encode("ascii"), entry.principal()) for entry in tokens.tokens]

    def principal(self, token: str) -> Principal | None:
        """Whom a token stands for; None for nobody."""
        self._refresh()
        presented = digest_of_token(token).encode("ascii")
        found = None
        # All of them, each in constant time: how long it takes tells nothing.
        for known, principal in self._known:
            if hmac.compare_digest(known, presented):
                found = principal
        return found

    def knows_hub(self, hub: HubId) -> bool:
        """Whether some token stands for this hub."""
        self._refresh()
        return any(principal.hub == hub for _, principal in self._known)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
        except OSError:
            return
        mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if mark == self._mark:
            return
        try:
            self.load()
        except ConfigurationError as why:
            self._mark = mark  # told once, not with each request
            log.error("tokens file not in order, the earlier tokens stay in force", extra={"why": str(why)})  # noqa: TRY400 - the words say it all
