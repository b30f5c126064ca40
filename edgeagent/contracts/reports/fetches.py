"""Fetching files for devices, and removing those that nobody uses: requests and answers."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.fetching import FILE_BYTES, FetchTrouble
from edgeagent.contracts.scalars import ArtifactIdField, DigestField

Size = Annotated[int, Field(ge=0, le=FILE_BYTES)]
"""A number of bytes."""


class FetchState(StrEnum):
    """How a fetch stands."""

    WAITING = "waiting"
    """Others are being fetched first."""
    FETCHING = "fetching"
    """It comes."""
    RETRYING = "retrying"
    """It did not come, and is tried again."""
    FETCHED = "fetched"
    """It is here, whole and verified."""
    FAILED = "failed"
    """It did not come, and is not tried again."""


class FetchReport(Contract):
    """How the fetch of one file stands.

    Attributes:
        artifact: which.
        sha256: of the file.
        length: of the file.
        state: how it stands.
        bytes: how many of it are here.
        tries: how often it was tried.
        trouble: why it did not come the last time; absent where it did.
        why: the same in words.
        advice: what to do about it.
    """

    artifact: ArtifactIdField
    sha256: DigestField
    length: Size
    state: FetchState = Field(strict=False)
    bytes: Size
    tries: Annotated[int, Field(ge=0)]
    trouble: FetchTrouble | None = Field(default=None, strict=False)
    why: str = ""
    advice: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.state in {FetchState.FETCHED, FetchState.FAILED}


class CollectRequest(Contract):
    """Asks for unused files to be removed.

    Attributes:
        dry_run: only say which these are.
    """

    dry_run: bool = False


class Removal(StrEnum):
    """Why a file is removed."""

    AGE = "age"
    """Nobody has used it for long."""
    BUDGET = "budget"
    """The files take more than they may together."""
    ABANDONED = "abandoned"
    """Its fetch broke off and was not taken up again."""


class Collected(Contract):
    """A file that is removed.

    Attributes:
        sha256: of what it was, or was to become.
        bytes: how many.
        why: it is removed.
    """

    sha256: DigestField
    bytes: Size
    why: Removal = Field(strict=False)


class CollectReport(Contract):
    """What was removed, or would be.

    Attributes:
        dry_run: whether it is all still there.
        removed: which.
        kept_bytes: what the others take together.
        in_use: how many of them are in use.
    """

    dry_run: bool
    removed: list[Collected]
    kept_bytes: Size
    in_use: Annotated[int, Field(ge=0)]
