"""Which logins stay although their device is not there to be read, and what they may do meanwhile.

A login goes when its device has been forgotten. That the device is not in the database says so only of the
database that it was admitted in: one that is lost, new in the place of a damaged one or put back from a
backup knows less. And a device that is left out, since its profile is missing, is still admitted. A password
is told once, and each that went wrongly would be a visit: so these stay, with the topics that are in force.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from edgeagent.contracts.broker_access import read_rules
from edgeagent.core.broker_rules import access_in, digest_of
from edgeagent.core.profile.access import Access
from edgeagent.errors import MalformedError
from edgeagent.setup.broker.logins import Login
from edgeagent.setup.broker.venue import LeftOut
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """Such logins, by name.

    Attributes:
        lost: those of whose devices the database does not know that they were forgotten.
        left_out: those whose devices are left out.
    """

    lost: Collection[str]
    left_out: Collection[str]

    @property
    def names(self) -> set[str]:
        """All of them."""
        return {*self.lost, *self.left_out}

    @property
    def notes(self) -> Iterator[str]:
        """Why each stays, and what ends it."""
        for name in sorted(self.lost):
            yield (
                f"the login {name} stays: the database, gone, new or put back, does not tell that its device "
                "was forgotten; restore a backup, admit the device again, or edgeagent broker logins remove "
                f"{name}"
            )
        for name in sorted(self.left_out):
            yield f"the login {name} stays as it is: its device is left out"


def kept(
    known: Mapping[str, Login], living: Collection[str], left_out: Sequence[LeftOut], *, is_same: bool
) -> Kept:
    """Find them.

    Args:
        known: all logins.
        living: the names of those whose devices are admitted and can be read.
        left_out: devices that are admitted and cannot.
        is_same: whether the database is the one in which the devices were admitted.
    """
    away = {name: login for name, login in known.items() if name not in living}
    out = {name for name, login in away.items() if any(_is_of(login, each) for each in left_out)}
    lost = {name for name, login in away.items() if not (is_same or login.expected)}
    return Kept(lost - out, out)


def _is_of(login: Login, left_out: LeftOut) -> bool:
    if login.device == left_out.device:
        return True
    # One that does not bear its device's name is shared, such as that of a bridge.
    return login.profile == left_out.profile and login.login != login.device


def in_force(login: Login, rules: str, told: str) -> Access | None:
    """What a login may do by the rules in force; None where these are not as they were written.

    Args:
        login: which one.
        rules: the list.
        told: what tells of them, by digest.
    """
    access = access_in(rules, login.login, login.device)
    try:
        digests = {rule.digest for rule in read_rules(told) if rule.login == login.login}
    except MalformedError:
        return None
    return access if digest_of(access) in digests else None
