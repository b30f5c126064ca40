"""Asking for backups, and the answers."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.backup import Version, Why
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import EpochField, HubIdField, Timestamp

FilePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
"""The path of a file or folder."""


class BackupRequest(Contract):
    """Asks for a backup.

    Attributes:
        keys: whether the hub's key and identity are to be in it.
    """

    keys: bool = True


class BackupReport(Contract):
    """A backup.

    Attributes:
        name: of its folder.
        path: of that.
        problem: what is wrong with it; empty for nothing. The rest is absent where it cannot be told.
        hub: whose it is.
        epoch: the life of the database.
        version: the edgeagent that worked with it last.
        tables: the number of the last migration that it has seen.
        made_at: by the hub's clock.
        why: it was made.
        has_keys: whether the hub's key and identity are in it.
        bytes: of all its files.
    """

    name: Annotated[str, Field(min_length=1, max_length=255)]
    path: FilePath
    problem: str = ""
    hub: HubIdField | None = None
    epoch: EpochField | None = None
    version: Version | None = None
    tables: Annotated[int, Field(ge=1)] | None = None
    made_at: Timestamp | None = None
    why: Why | None = Field(default=None, strict=False)
    has_keys: bool = False
    bytes: Annotated[int, Field(ge=0)] | None = None


class BackupsReport(Contract):
    """The backups in the state folder, the newest first.

    Attributes:
        folder: where they lie.
        keep: how many made by hand are kept.
        backups: each of them.
    """

    folder: FilePath
    keep: Annotated[int, Field(ge=1)]
    backups: list[BackupReport]
