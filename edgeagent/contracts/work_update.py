"""What the isolated worker and the daemon say to each other of an update of firmware (SPEC F4, W1)."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import ArtifactIdField, DigestField, Microseconds
from edgeagent.contracts.update import Overdue, Runs, Stage, VersionText


class DeniedRecord(Contract):
    """The device said no."""

    reason: Reason = Field(strict=False)
    words: str


class UpdateRecord(Contract):
    """What is recorded of an update; the fields are those of ``core.firmware.Update``."""

    stage: Stage = Field(strict=False)
    artifact: ArtifactIdField
    sha256: DigestField
    earlier: VersionText
    wanted: VersionText
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    runs: str = ""


class TermsRecord(Contract):
    """Under which terms a device is updated; the fields are those of ``core.firmware.Terms``."""

    soak: Microseconds
    lasts: Microseconds
    steps: Annotated[int, Field(ge=1, le=8)]
    can_go_back: bool


class ServedRecord(Contract):
    """Where an update stands, and its terms."""

    update: UpdateRecord
    terms: TermsRecord


class CourseRecord(Contract):
    """What a device said of an update; the fields are those of ``core.updating.Course``."""

    taken: bool
    done: bool
    denied: DeniedRecord | None = None
    percent: Annotated[float, Field(ge=0, le=100)] | None = None
    remaining: Microseconds | None = None
    signs: Annotated[int, Field(ge=0)]
    gone: bool
    back: bool


class SightRecord(Contract):
    """What was seen of a device in an update; the fields are those of ``core.firmware.Sight``."""

    course: CourseRecord
    overdue: Overdue | None = Field(default=None, strict=False)
    is_over: bool
    runs: Runs = Field(strict=False)
    version: str
    steady: Microseconds
    waited: Microseconds
    is_there: bool
