"""What ``edgeagent setup`` asks for where somebody sits: the claim code, and what no code can say."""

import argparse
import sys
from collections.abc import Sequence

from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.printing import safe
from edgeagent.contracts.claim import CLAIM_CHARACTERS, Claim, read_claim
from edgeagent.errors import MalformedError


def claim_of(arguments: argparse.Namespace, *, otherwise: str) -> Claim:
    """The claim code, as it was typed, read or pasted.

    Args:
        arguments: what was typed.
        otherwise: what to type where nobody can be asked.

    Raises:
        MalformedError: it is none.
        AdvisedError: there is none, and nobody can be asked.
    """
    if arguments.claim == "-":
        return read_claim(sys.stdin.read(CLAIM_CHARACTERS + 1))
    if arguments.claim is not None:
        return read_claim(arguments.claim)
    if not sys.stdin.isatty():
        raise AdvisedError("nobody is there to be asked for the claim code", otherwise)
    return _pasted()


def ask_for(arguments: argparse.Namespace, *, groups: Sequence[str]) -> None:
    """Ask for what was not typed and no code says: the broker, and who may do what.

    An empty answer is the usual one.

    Args:
        arguments: what was typed; the answers go there.
        groups: of this machine.
    """
    if arguments.broker is None and not arguments.config.exists():
        _tell("The broker: a guest changes nothing of the mosquitto that is there; managed, it gets its own")
        _tell("configuration, with a login for each device, which opens that device's topics only.")
        arguments.broker = _choice("guest or managed?", ("guest", "managed"), "guest")
    for name, usual, what in (
        ("view_group", "edgeagent-view", "Whose members may look"),
        ("operate_group", "edgeagent-operate", "Whose members may have things done"),
    ):
        if vars(arguments)[name] is None and usual in groups:
            setattr(arguments, name, _choice(f"{what}: a group?", groups, usual))


def _pasted() -> Claim:
    _tell("Claim code, as the issuer has given it; it may have several lines (an empty one ends it):")
    text = ""
    while line := sys.stdin.readline().strip():
        text += line
        try:
            return read_claim(text)
        except MalformedError:
            # The rest of it may be on the next line; an empty one ends it.
            continue
    return read_claim(text)


def _choice(question: str, choices: Sequence[str], usual: str) -> str:
    """One of some answers; asked again until it is one. Whoever goes away gets the usual."""
    while True:
        print(f"{question} [{usual}] ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        answer = line.strip() or usual
        if answer in choices or not line:
            return answer if line else usual
        _tell(f"there is no {safe(answer)} among: {', '.join(sorted(choices))}")


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
