"""Which logins there are at a broker of ours, and whose: what ``logins`` and ``passwd`` hold.

A login is *expected* from when it is made until its device is admitted: so long its topics are known by what
was said when it was made. Once its device has been admitted it lives and goes with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from pydantic import Field, JsonValue

from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.scalars import DeviceIdField
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.setup.broker.place import MARK, BrokerPlace
from edgeagent.values import dataclass

_LINE_BYTES = 16 * 1024


class Login(Contract):
    """A login.

    Attributes:
        login: its name.
        device: for whom it was made; for a bridge, a name for it.
        profile: the id of its family's profile.
        parameters: of the profile, as far as its topics need them.
        expected: whether none of its devices has been admitted since it was made.
    """

    login: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    device: DeviceIdField
    profile: str
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    expected: bool = True


@dataclass(frozen=True, slots=True)
class Logins:
    """All of them.

    Attributes:
        known: by name.
        hashes: of their passwords, by name; the agent's own too.
    """

    known: Mapping[str, Login] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)


def read_logins(place: BrokerPlace) -> Logins:
    """What is in force.

    Raises:
        ConfigurationError: a file cannot be read, is somebody else's, or was changed by hand.
    """
    known: dict[str, Login] = {}
    for line in _lines(place.read(place.logins)):
        try:
            login = decode(Login, line.encode(), limit=_LINE_BYTES)
        except MalformedError as why:
            raise ConfigurationError(f"{place.logins} was changed: {why}") from why
        known[login.login] = login
    hashes = dict(line.split(":", 1) for line in _lines(place.read(place.passwords)) if ":" in line)
    return Logins(known, hashes)


def logins_text(logins: Logins) -> str:
    """What is to stand in ``logins``."""
    return "\n".join([MARK, *(encode(logins.known[name]).decode() for name in sorted(logins.known)), ""])


def passwords_text(logins: Logins) -> str:
    """What is to stand in ``passwd``."""
    return "\n".join([MARK, *(f"{name}:{logins.hashes[name]}" for name in sorted(logins.hashes)), ""])


def _lines(text: str | None) -> Sequence[str]:
    return [] if text is None else [line for line in text.splitlines() if line and not line.startswith("#")]
