"""Asking for a backup, and the answer."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract

FilePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
"""The path of a file."""


class BackupRequest(Contract):
    """Asks for a copy of the database.

    Attributes:
        file: where; absolute, and nothing is there yet.
    """

    file: FilePath


class BackupReport(Contract):
    """A backup was made and is whole.

    Attributes:
        file: where.
        bytes: how many it has.
    """

    file: FilePath
    bytes: Annotated[int, Field(ge=0)]
