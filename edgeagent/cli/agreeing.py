"""Asking back before something is done."""

import sys

from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.printing import safe


def agrees(question: str, otherwise: str) -> bool:
    """Ask a person; no answer is a no.

    The question goes to standard error: what is printed is the answer to what was typed.

    Args:
        question: what is asked.
        otherwise: what to type where nobody can be asked.

    Raises:
        AdvisedError: nobody can be.
    """
    if not sys.stdin.isatty():
        raise AdvisedError(f"nobody is there to be asked: {question}", otherwise)
    print(f"{safe(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
