"""What a backup says of itself: the manifest beside its files."""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import DigestField, EpochField, HubIdField, Timestamp

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A number of something."""
_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,2}$"
_NAME_SIGNS: Final = 200
FileName = Annotated[str, Field(max_length=_NAME_SIGNS, pattern=_NAME)]
"""A file of a backup: no way leads out of its folder."""
Version = Annotated[str, Field(max_length=40, pattern=r"^[A-Za-z0-9.+~-]+$")]
"""A version of edgeagent."""


def is_file_name(name: str) -> bool:
    """Whether a file of a backup may have this name."""
    return len(name) <= _NAME_SIGNS and re.fullmatch(_NAME, name) is not None


class Why(StrEnum):
    """Why a backup was made."""

    BY_HAND = "by_hand"
    """Somebody asked for it."""
    UPGRADE = "upgrade"
    """A newer edgeagent was about to change the tables."""


class BackupFile(Contract):
    """A file of a backup.

    Attributes:
        name: below the backup's folder.
        bytes: how many it has.
        sha256: of all of them.
    """

    name: FileName
    bytes: Count
    sha256: DigestField


class BackupLink(Contract):
    """A link of a backup, to a file beside it.

    Attributes:
        name: below the backup's folder.
        to: the name of the file beside it.
    """

    name: FileName
    to: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Manifest(Contract):
    """A backup.

    Attributes:
        format: of this very text.
        hub: whose it is; None where the database does not tell.
        epoch: the life of the database; None when it had none yet.
        version: the edgeagent that worked with it last.
        tables: the number of the last migration that it has seen.
        incarnation: the last start of the agent that it knows.
        audit_number: of its trail's last row.
        made_at: by the hub's clock.
        why: it was made.
        has_keys: whether the hub's key and identity are in it.
        files: all that belongs to it.
        links: the same; they are in the manifest alone.
    """

    format: Literal[1] = 1
    hub: HubIdField | None = None
    epoch: EpochField | None = None
    version: Version
    tables: Annotated[int, Field(ge=1, lt=10_000)]
    incarnation: Count
    audit_number: Count
    made_at: Timestamp
    why: Why = Field(strict=False)
    has_keys: bool
    files: Annotated[list[BackupFile], Field(min_length=1, max_length=64)]
    links: Annotated[list[BackupLink], Field(max_length=64)] = Field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Of all its files together."""
        return sum(file.bytes for file in self.files)


class Signed(Contract):
    """The content of ``manifest.json``. The hash finds accidents, and proves nothing against malice.

    Attributes:
        manifest: what is said.
        sha256: of its JSON, compact and with sorted keys.
    """

    manifest: Manifest
    sha256: DigestField
