"""``edgeagent``: parse the words, find the noun, print its answer.

Exit statuses: 0 done; 1 refused or failed; 2 wrong words; 69 no agent answers; 78 the configuration
is wrong. ``health`` answers as monitoring plugins do: 0 ok, 1 warning, 2 critical, 3 unknown. ``send``
and ``issuer watch`` say in docs/operating.md what theirs mean.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from edgeagent.cli import (
    audit,
    backup,
    breakers,
    clock,
    commands,
    config,
    dead_letters,
    devices,
    drill,
    fetch_policy,
    health,
    hub,
    issuer,
    locks,
    outbox,
    policy,
    run,
    worker,
)
from edgeagent.cli.asking import AgentDownError, AskingRefusedError
from edgeagent.cli.printing import Parser, complain, survive_narrow_terminals
from edgeagent.config import DEFAULT_PATH
from edgeagent.contracts.door import faults
from edgeagent.errors import AgentError, ConfigurationError, RejectedError

EXIT_FAILED: Final = 1
EXIT_WORDS: Final = 2
EXIT_NO_AGENT: Final = 69
EXIT_CONFIGURATION: Final = 78

Handler = Callable[[argparse.Namespace], int]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status; see the module's docstring.
    """
    survive_narrow_terminals()
    typed = list(sys.argv[1:] if words is None else words)
    if any(not _is_text(word) for word in typed):
        complain("a word that is no text")
        return EXIT_WORDS
    # People type it behind the noun as well; what stands behind -- is no option, whatever it looks like.
    options = typed[: typed.index("--")] if "--" in typed else typed
    if "--json" in options:
        options = ["--json", *(word for word in options if word != "--json")]
    operands = typed[typed.index("--") :] if "--" in typed else []
    try:
        arguments = _parser().parse_args([*options, *operands])
    except RejectedError as why:
        # A word that is to be an id and is none.
        complain(str(why))
        return EXIT_WORDS
    handler: Handler = arguments.handler
    try:
        return handler(arguments)
    except (AgentError, ValidationError) as why:
        return _complaint(why, arguments.check)
    except BrokenPipeError:
        # Whoever read us has gone; nothing more can be said, not even by Python at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _complaint(why: AgentError | ValidationError, advice: str) -> int:
    """Say what went wrong.

    Args:
        why: what.
        advice: what to type where a file of the operator's is wrong; empty for nothing.

    Returns:
        The exit status.
    """
    match why:
        case AgentDownError():
            complain(str(why), "systemctl status edgeagent, or start it with edgeagent run")
            return EXIT_NO_AGENT
        case ConfigurationError():
            # Each mistake on a line of its own.
            *before, last = str(why).split("\n")
            for mistake in before:
                complain(mistake)
            complain(last, advice)
            return EXIT_CONFIGURATION
        case AskingRefusedError():
            complain(str(why), why.advice)
        case ValidationError():
            # What was typed fits no request of ours.
            complain(faults(why))
        case _:
            complain(str(why))
    return EXIT_FAILED


def _is_text(word: str) -> bool:
    """Whether a word came as UTF-8; other bytes come as halves of characters (PEP 383)."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="edgeagent", description="The agent on a venue's hub.")
    parser.add_argument(
        "--config",
        type=Path,
        default=Path(os.environ.get("EDGEAGENT_CONFIG", DEFAULT_PATH)),
        help=f"the configuration (default: $EDGEAGENT_CONFIG or {DEFAULT_PATH})",
    )
    parser.add_argument("--json", action="store_true", help="print answers as JSON")
    parser.set_defaults(check="edgeagent config check")
    nouns = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for noun in (
        *(run, worker, health, devices, commands, dead_letters, breakers, locks, policy, hub),
        *(clock, outbox, audit, backup, drill, config, issuer, fetch_policy),
    ):
        noun.add_to(nouns)
    return parser
