"""What ``edgeagent setup`` tells."""

from enum import StrEnum

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.health import Check
from edgeagent.contracts.scalars import HubIdField


class Came(StrEnum):
    """What has become of a step."""

    DONE = "done"
    """It was done now."""
    KEPT = "kept"
    """It was done before; nothing was changed."""
    WOULD = "would"
    """It would be done: this is a dry run."""
    LEFT = "left"
    """It is left to a person; the words say what to do."""


class SetupStep(Contract):
    """One step.

    Attributes:
        name: of the step.
        came: what has become of it.
        words: for people; of a file that would be written, the difference.
    """

    name: str
    came: Came = Field(strict=False)
    words: str


class SetupReport(Contract):
    """All steps, in their order, and what is found wrong after them."""

    hub: HubIdField
    steps: list[SetupStep]
    checks: list[Check] = Field(default_factory=list)
