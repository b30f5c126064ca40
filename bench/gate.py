"""What the gate costs: verdicts a second, beside the bare Ed25519 verification of the same run.

    python -m bench.gate [--runs N]

An *accept* is everything that happens to a command before it is stored: envelope, signature, schema,
judgement. The reference is ``verify`` of the library alone, over the same bytes: what is left of its
rate is what the rest costs. The others are what an attacker or a bad link can send in numbers.
"""

import argparse
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from timeit import repeat, timeit
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from bench.figures import Row, table
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import (
    Keyring,
    RefusedEnvelopeError,
    pre_authentication_encoding,
    unproven_payload,
    verify,
)
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.verdict import Accept, Duplicate, Moment, Verdict
from edgeagent.core.gate.world import Known, World
from edgeagent.core.profile.compile import Gateway, compile_device
from edgeagent.core.profile.facts import Facts
from edgeagent.core.profile.load import load
from edgeagent.profiles.shipped import shipped_profiles
from tests.core.gating import DESK, HUB, LAMP, OWN, asked, command, envelope, policy, world

_TIMES: Final = 500
_ROUNDS: Final = 7

ROWS: Final = (
    Row(name="accept", title="accepted, verdicts/s", least_of_reference=0.6),
    Row(name="bad_signature", title="bad signature, verdicts/s"),
    Row(name="unknown_key", title="unknown key, verdicts/s"),
    Row(name="replay", title="replayed, verdicts/s"),
    Row(name="oversize", title="too large, verdicts/s"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """An envelope, and the world that it comes to.

    Attributes:
        raw: the envelope as it comes.
        keys: the keys whose word counts.
        around: what it is judged by.
        expected: the kind of verdict, or why it is not even judged.
    """

    raw: bytes
    keys: Keyring
    around: World
    expected: type[Verdict] | Reason

    def answer(self) -> Verdict | Reason:
        """What the gate says to it as it comes."""
        try:
            [asked] = opened(self.raw, self.keys)
            return judge(asked, self.around, Moment.ADMIT)
        except RefusedEnvelopeError as why:
            return why.reason

    def check(self) -> None:
        """Make sure that the gate says what is to be measured.

        Raises:
            RuntimeError: it says something else.
        """
        answer = self.answer()
        if answer is not self.expected and type(answer) is not self.expected:
            raise RuntimeError(f"{self.expected} was to be measured, the gate says {answer}")


def gate_costs() -> dict[str, float]:
    """Microseconds of each part, at its best of a few rounds: the rest is other programs' doing."""
    around = _around()
    raw, keys, known = envelope(command(), DESK), keyring(policy(), HUB, OWN.public), asked()
    return {
        "gate.verify": _microseconds(lambda: verify(raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)),
        "gate.open": _microseconds(lambda: opened(raw, keys)),
        "gate.admit": _microseconds(lambda: judge(known, around, Moment.ADMIT)),
        "gate.act": _microseconds(lambda: judge(known, around, Moment.ACT)),
    }


def rates(*, times: int = 20, rounds: int = 200) -> tuple[dict[str, float], dict[str, float]]:
    """Verdicts a second of each kind, and for each the bare verifications a second of the same rounds.

    What is measured takes turns, so that a slow moment of the machine is everybody's; each counts at its
    best. A turn takes some milliseconds: less than other programs are given at once, so that some of the
    turns are undisturbed on a busy machine too.
    """
    cases = _cases()
    for case in cases.values():
        case.check()
    work: dict[str, Callable[[], object]] = {name: case.answer for name, case in cases.items()}
    work["bare"] = _bare_verify(cases["accept"])
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, once in work.items():
            best[name] = min(best[name], timeit(once, number=times) / times)
    return {name: 1 / best[name] for name in cases}, dict.fromkeys(cases, 1 / best["bare"])


def _cases() -> Mapping[str, Case]:
    raw, keys, around = envelope(command(), DESK), keyring(policy(), HUB, OWN.public), _around()
    before = asked().verified
    stored = Known(sha256=before.sha256, held=False, signers=frozenset(before.signers))
    seen = world(device=around.device, shadow=None, known=stored)
    return {
        "accept": Case(raw, keys, around, Accept),
        "bad_signature": Case(_with_bad_signature(raw), keys, around, Reason.BAD_SIGNATURE),
        "unknown_key": Case(raw, {OWN.id: OWN.public}, around, Reason.BAD_SIGNATURE),
        "replay": Case(raw, keys, seen, Duplicate),
        "oversize": Case(raw.ljust(COMMAND_BYTES + 1), keys, around, Reason.TOO_LARGE),
    }


def _around() -> World:
    """A hub with a real lamp: what a profile makes of it is part of the price."""
    tasmota = next(profile for profile in map(load, shipped_profiles()) if profile.id == "tasmota")
    lamp = compile_device(tasmota, LAMP, {"topic": "lamp"}, gateway=Gateway(HUB))
    return world(device=Facts(lamp), shadow=None)


def _bare_verify(case: Case) -> Callable[[], object]:
    """The library's own verification of the case's signature: parsed, encoded and loaded beforehand."""
    message = pre_authentication_encoding(COMMAND_TYPE, unproven_payload(case.raw))
    key, signature = Ed25519PublicKey.from_public_bytes(DESK.public), DESK.sign(message)
    return lambda: key.verify(signature, message)


def _with_bad_signature(raw: bytes) -> bytes:
    """The same envelope with one bit of its signature the other way round."""
    good = DESK.sign(pre_authentication_encoding(COMMAND_TYPE, unproven_payload(raw)))
    return raw.replace(b64encode(good), b64encode(bytes([good[0] ^ 1]) + good[1:]))


def _microseconds(work: Callable[[], object]) -> float:
    return min(repeat(work, number=_TIMES, repeat=_ROUNDS)) / _TIMES * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="bench.gate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    runs = [rates() for _ in range(options.runs)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {options.runs} runs;", end=" ")
    print("reference: bare Ed25519 verification\n")
    print(table(ROWS, [ours for ours, _ in runs], [bare for _, bare in runs]))


if __name__ == "__main__":
    main()
