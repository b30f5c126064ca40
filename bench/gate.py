"""What the gate costs: believing an envelope, and judging what it asks."""

from collections.abc import Callable
from timeit import repeat
from typing import Final

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.core.envelope import verify
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.verdict import Moment
from edgeagent.core.profile.compile import Gateway, compile_device
from edgeagent.core.profile.load import load
from edgeagent.flows.worlds import Facts
from edgeagent.profiles.shipped import shipped_profiles
from tests.core.gating import DESK, HUB, LAMP, OWN, asked, command, envelope, policy, world

_TIMES: Final = 500
_ROUNDS: Final = 7


def gate_costs() -> dict[str, float]:
    """Microseconds of each part, at its best of a few rounds: the rest is other programs' doing."""
    tasmota = next(profile for profile in map(load, shipped_profiles()) if profile.id == "tasmota")
    lamp = compile_device(tasmota, LAMP, {"topic": "lamp"}, gateway=Gateway(HUB))
    around = world(device=Facts(lamp), shadow=None)
    raw, keys, known = envelope(command(), DESK), keyring(policy(), HUB, OWN.public), asked()
    return {
        "gate.verify": _microseconds(lambda: verify(raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)),
        "gate.open": _microseconds(lambda: opened(raw, keys)),
        "gate.admit": _microseconds(lambda: judge(known, around, Moment.ADMIT)),
        "gate.act": _microseconds(lambda: judge(known, around, Moment.ACT)),
    }


def _microseconds(work: Callable[[], object]) -> float:
    return min(repeat(work, number=_TIMES, repeat=_ROUNDS)) / _TIMES * 1e6
