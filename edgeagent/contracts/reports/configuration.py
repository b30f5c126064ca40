"""What became of the configuration since the agent has started."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract

KeyName = Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9_.]+$")]
"""A key of the configuration, with its section."""


class ReloadRequest(Contract):
    """Asks for the configuration to be read again."""


class ConfigurationReport(Contract):
    """How the file stands to what is in force.

    Attributes:
        taken: keys whose new values were taken when it was read last.
        needs_restart: keys whose new values are not in force before a restart.
        trouble: why it could not be read last; empty when it could. What was in force stays.
    """

    taken: list[KeyName] = Field(default_factory=list)
    needs_restart: list[KeyName] = Field(default_factory=list)
    trouble: Annotated[str, Field(max_length=4000)] = ""
