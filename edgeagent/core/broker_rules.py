"""The rules of a broker that is the hub's own: for each login the topics that it may use, written out.

mosquitto(5) reads them as lines ``user NAME`` and ``topic read|write FILTER``; what no line allows is
refused. The agent hears its devices and what announces itself, and writes where devices take commands,
nowhere else (W2).
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from edgeagent.core.profile.access import Access
from edgeagent.core.profile.match import covers
from edgeagent.ids import DeviceId, TopicFilter

SYSTEM: Final = "$SYS/broker/#"
"""What the broker tells of itself."""
_TOPIC: Final = re.compile(r"^topic (read|write|readwrite) (.+)$", re.MULTILINE)


def rules_of(agent: str, heard: Iterable[str], all_access: Sequence[Access]) -> list[str]:
    """The lines of the list.

    Args:
        agent: the agent's login.
        heard: what else the agent hears: announcements, and where a retained command may lie.
        all_access: of the devices.
    """
    lines = [f"user {agent}", f"topic read {SYSTEM}"]
    written = {each for access in all_access for each in access.write}
    commanded = {each for access in all_access for each in access.read}
    further = {each for each in heard if not any(covers(wide, each) for wide in written | commanded)}
    lines += [f"topic read {each}" for each in sorted((further | written) - commanded)]
    lines += [f"topic readwrite {each}" for each in sorted(commanded)]
    for login in sorted({access.login for access in all_access}):
        own = {line for access in all_access if access.login == login for line in _lines(access)}
        lines += ["", f"user {login}", *sorted(own)]
    return lines


def access_in(rules: str, login: str, device: DeviceId) -> Access:
    """What a login may do by the lines of such a list; nothing where it has none."""
    block = rules.partition(f"\nuser {login}\n")[2].partition("\n\n")[0]
    found = [(verb, TopicFilter(name)) for verb, name in _TOPIC.findall(block)]
    return Access(
        login=login,
        device=device,
        write=tuple(name for verb, name in found if verb != "read"),
        read=tuple(name for verb, name in found if verb != "write"),
    )


def digest_of(access: Access) -> str:
    """What tells whether the rules of a device are as its profile has them now; one for all of a login."""
    return hashlib.sha256("\n".join([access.login, *sorted(_lines(access))]).encode()).hexdigest()


def _lines(access: Access) -> set[str]:
    both = {*access.write} & {*access.read}
    return {
        *(f"topic readwrite {each}" for each in both),
        *(f"topic write {each}" for each in access.write if each not in both),
        *(f"topic read {each}" for each in access.read if each not in both),
    }
