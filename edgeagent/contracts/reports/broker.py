"""What ``edgeagent broker`` tells."""

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.health import Check, Level, worst
from edgeagent.contracts.scalars import Timestamp


class BrokerCheck(Check):
    """One thing about the broker.

    Attributes:
        lines: what to add to its configuration, a line each; empty where that would not help.
    """

    lines: list[str] = Field(default_factory=list)


class BrokerReport(Contract):
    """How a broker is, for a guest that changes nothing of it.

    Attributes:
        at: when it was looked.
        broker: where it is.
        checks: what was found.
        cannot: what is not promised on this broker, a sentence each.
    """

    at: Timestamp
    broker: str
    checks: list[BrokerCheck]
    cannot: list[str]

    @property
    def level(self) -> Level:
        """The worst of the checks."""
        return worst(self.checks)


class BrokerPlanReport(Contract):
    """What would be written for a broker of our own, and what stands in the way.

    Attributes:
        differences: of each file that would change, as ``diff -u`` tells it; what is secret left out.
        restart: whether the broker has to be started anew for it, which cuts its clients off for a moment.
        reload: whether it has to read its files anew.
        obstacles: why nothing can be written.
        notes: what else to know, such as devices that have no login.
    """

    differences: dict[str, str]
    restart: bool
    reload: bool
    obstacles: list[str]
    notes: list[str]


class BrokerAppliedReport(Contract):
    """What was written.

    Attributes:
        written: the files.
        removed: those that went.
        done: ``nothing``, ``reloaded`` or ``restarted``.
        notes: what else to know.
    """

    written: list[str]
    removed: list[str]
    done: str
    notes: list[str]


class LoginReport(Contract):
    """A login at the broker.

    Attributes:
        login: its name.
        family: the profile by which its topics are known.
        devices: who comes with it.
        password: said once, when it is made; absent from then on.
    """

    login: str
    family: str
    devices: list[str]
    password: str | None = None


class LoginsReport(Contract):
    """All logins of devices."""

    logins: list[LoginReport]
