"""What a person at the hub may ask about the configuration of the running agent."""

from typing import Protocol

from edgeagent.contracts.reports.configuration import ConfigurationReport


class ConfigurationDesk(Protocol):
    """Reads the configuration again."""

    @property
    def standing(self) -> ConfigurationReport:
        """How the file stood to what is in force when it was read last."""
        ...

    async def reload(self, actor: str) -> ConfigurationReport:
        """Read it again, and take what can be taken; ``actor`` is who the operating system says is asking."""
        ...
