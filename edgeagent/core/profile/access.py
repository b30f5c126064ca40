"""Which topics the login of a device may use at the broker: its own, written out (SPEC M4, W2).

Rules that name the login by a wildcard would not do: families choose their topics themselves, and those of
one device begin like those of another. So each is written out from the profile that speaks with the device,
and two logins of which one could speak for the other's devices are told (``clashes``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from edgeagent import ids
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.parameters import Gateway, settle
from edgeagent.core.profile.paths import Values
from edgeagent.core.profile.templates import template
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId, TopicFilter
from edgeagent.values import dataclass

_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one login may do.

    Attributes:
        login: its name.
        device: whose it is; one of them where several share it.
        write: filters that it may publish on.
        read: filters that it may hear.
    """

    login: str
    device: DeviceId
    write: tuple[TopicFilter, ...]
    read: tuple[TopicFilter, ...]


def access_of(compiled: CompiledDevice) -> Access:
    """What the login of an admitted device may do.

    Raises:
        MalformedError: its topics or its login's name fit into no list of rules.
    """
    own = tuple(wanted.filter for wanted in compiled.subscriptions)
    return _access(compiled.profile, compiled.device, compiled.values, own, compiled.command_topics)


def access_before(
    profile: DeviceProfile, device: DeviceId, given: Mapping[str, object], gateway: Gateway
) -> Access:
    """What the login of a device may do that is not admitted yet, so that it can announce itself.

    Raises:
        MalformedError: a parameter that its topics need is missing or wrong; or its family says nothing of
            logins; or as ``access_of``.
    """
    if profile.access is None:
        raise MalformedError(f"the profile {profile.id} has no [access]: admit the device first")
    scope = settle(profile, device, given, gateway, partly=True)
    return _access(profile, device, scope.values, (), ())


def clashes(all_access: Sequence[Access]) -> list[str]:
    """Logins of which one could speak for the other's device, or command it; a sentence each."""
    found = []
    for one in all_access:
        for other in all_access:
            if one.login == other.login:
                if set(one.write) != set(other.write):
                    found.append(f"the login {one.login} would be of both {one.device} and {other.device}")
                continue
            shared = [
                (own, theirs)
                for own in one.write
                for theirs in (*other.write, *other.read)
                if overlap(own, theirs)
            ]
            if shared:
                own, theirs = shared[0]
                told = f"{one.login} may write {own}, which reaches {theirs} of {other.login}"
                found.append(f"{told}: give one of the two another topic")
    return list(dict.fromkeys(found))


def overlap(one: str, other: str) -> bool:
    """Whether there is a topic that is under both filters (MQTT 5 section 4.7.1)."""
    mine, theirs = one.split("/"), other.split("/")
    for a, b in zip(mine, theirs, strict=False):
        if "#" in {a, b}:
            return True
        if a != b and "+" not in {a, b}:
            return False
    longer = mine[len(theirs) :] or theirs[len(mine) :]
    return not longer or longer == ["#"]


def _access(
    profile: DeviceProfile,
    device: DeviceId,
    values: Values,
    own: Iterable[TopicFilter],
    commands: Iterable[TopicFilter],
) -> Access:
    rule = profile.access
    if rule is None:
        login, write, read = str(device), tuple(own), tuple(commands)
    else:
        texts = [rule.login, *rule.write, *rule.read]
        missing = {root for text in texts for root in _missing(template(text).placeholders, profile, values)}
        if missing:
            raise MalformedError(f"its topics need the parameter {', '.join(sorted(missing))}")
        login = _filled(rule.login, values).replace("/", "_")
        write = tuple(ids.topic_filter(_filled(text, values)) for text in rule.write)
        read = tuple(ids.topic_filter(_filled(text, values)) for text in rule.read)
    if _LOGIN.fullmatch(login) is None:
        raise MalformedError(f"no name of a login: {login[:80]!r}; it is made of letters, digits, _ and -")
    for each in (*write, *read):
        if each != each.strip():
            # A list of rules takes no notice of a space there, and means another topic.
            raise MalformedError(f"{device}: a topic that begins or ends with a space: {each!r}")
    return Access(login=login, device=device, write=write, read=read)


def _filled(text: str, values: Values) -> str:
    return template(text).render(values) or ""


def _missing(names: Iterable[str], profile: DeviceProfile, values: Values) -> set[str]:
    """The parameters that have no value and on which these names rest."""
    found: set[str] = set()
    for name in names:
        if name in values:
            continue
        default = profile.parameters[name].default
        below = template(default).placeholders if isinstance(default, str) else frozenset()
        found |= _missing(below, profile, values) or {name}
    return found
