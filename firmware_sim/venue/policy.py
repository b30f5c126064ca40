"""The policy of a venue: who may sign what, and how it is carried out, as it is written for the hub."""

import json
from collections.abc import Sequence
from typing import Final

from firmware_sim.venue.approved import ARTIFACT, sha256

HUB: Final = "venue"
"""The id of the one hub."""
ENOUGH: Final = 3
"""So many refusals stop an origin's action; so many commands off the list do, too: ``OFF_LIST``."""
OFF_LIST: Final = 3
AT_ONCE: Final = 2
"""So many appliances are updated at once."""
FIRST: Final = 1
"""So many have to be done before the others begin."""

_ACTIONS: Final = ("power", "toggle", "brightness", "position", "color", "color_temperature", "identify")
_RULE: Final = """
[actions.{action}]
tier = "medium"
confirmation = "applied"
"""
# What the desk does every day is of the middle tier, which begins nothing while the hub cannot tell the time.
_POLICY: Final = f"""hubs = ["{HUB}"]
valid_for = "30d"

[keys]
desk = "desk.pem.pub"
supplier = "supplier.pem.pub"
clock = "clock.pem.pub"

[roles.desk]
kind = "command"
keys = ["desk"]
actions = {json.dumps(_ACTIONS)}
devices = "*"

[roles.installers]
kind = "command"
keys = ["desk", "supplier"]
actions = ["install"]
devices = "*"

[roles.clock]
kind = "time"
keys = ["clock"]

[roles.here]
kind = "local_operator"
hubs = ["{HUB}"]
actions = "*"
devices = "*"

[tiers.medium]
concurrency = 4

[actions.reboot]
tier = "high"
[actions.reboot.approvals]
at_hub = true

[actions.install]
tier = "medium"

[firmware]
parallel = {AT_ONCE}
canary = {FIRST}
stop_after = 2
soak = "1s"
patience = "20s"
"""
_TERMS: Final = """
[roles.rebooters]
kind = "command"
keys = ["desk"]
actions = ["reboot"]
devices = {devices}

[breaker]
refusals = {enough}
off_target = {off_list}
when_open = "quarantine"
"""


def written(version: int, *, reboots: str | Sequence[str]) -> str:
    """A version of the policy, in TOML.

    Args:
        version: which.
        reboots: the devices that the desk may reboot; ``*`` for all.
    """
    return "".join(
        [
            f"version = {version}\n{_POLICY}",
            *(_RULE.format(action=action) for action in _ACTIONS),
            f'\n[artifacts]\n"{ARTIFACT}" = ["{sha256()}"]\n',
            _TERMS.format(devices=json.dumps(reboots), enough=ENOUGH, off_list=OFF_LIST),
        ]
    )
