"""What the page is told of its own looking."""

from edgeagent.contracts.door import Contract


class LookReport(Contract):
    """How the last look at the hub went.

    Attributes:
        failing: why something could not be looked at and is shown as it was; empty when all is new.
    """

    failing: str = ""
