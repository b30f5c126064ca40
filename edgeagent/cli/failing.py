"""What goes wrong on a command line: what it is, what to type next, and the exit status.

All of it is made here, out of the error and the words that were typed. People get it on standard error; with
``--json`` it is the one object on standard output: ``{"error": {"kind", "message", "next"}}``.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from edgeagent.cli.printing import complain, safe
from edgeagent.config import DEFAULT_PATH
from edgeagent.contracts.door import faults
from edgeagent.contracts.reports.refusal import Kind, Refusal
from edgeagent.errors import (
    AgentError,
    AmbiguousError,
    BrokenInvariantError,
    ConfigurationError,
    MalformedError,
    RejectedError,
    TransientError,
    UnknownError,
)
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.values import dataclass

EXIT_FAILED: Final = 1
EXIT_WORDS: Final = 2
EXIT_NO_AGENT: Final = 69
EXIT_CONFIGURATION: Final = 78

WORDS: Final = "words"
"""The kind of failure that is told of words that are none."""
AGENT_DOWN: Final = "agent_down"
"""That nobody answers on the agent's socket."""
CONFIGURATION: Final = "configuration"
"""That a file of the operator's is wrong or cannot be read."""
PEER: Final = "peer"
"""That the queue cannot be used."""

# Where to look, after a no; and where it stands what things are called.
_LISTS: Final = {
    "artifacts": "edgeagent artifacts list",
    "audit": "edgeagent audit list",
    "backup": "edgeagent backup list",
    "breakers": "edgeagent breakers list",
    "broker": "edgeagent broker check",
    "broker logins": "edgeagent broker logins list",
    "clock": "edgeagent clock show",
    "commands": "edgeagent commands list",
    "config": "edgeagent config keys",
    "dead-letters": "edgeagent dead-letters list",
    "devices": "edgeagent devices list",
    "drill": "edgeagent health",
    "firmware": "edgeagent firmware status",
    "hub": "edgeagent hub stops",
    "locks": "edgeagent locks list",
    "outbox": "edgeagent health",
    "policy": "edgeagent policy show",
    "policy show": "edgeagent health",
    "run": "edgeagent config check",
    "setup": "edgeagent setup check",
    "send": "edgeagent devices list, edgeagent policy show",
    "status": "edgeagent health",
    "support-bundle": "edgeagent support-bundle --yes",
    "worker": "edgeagent health",
}
_OF_PEER: Final = {
    Trouble.UNREACHABLE: "curl -v {queue}, and look at the network and the address",
    Trouble.TLS: "name its certificates with --ca-file, and see that this machine's clock is right",
    Trouble.TLS_EXPIRED: "have the queue renew its certificate, and see that this machine's clock is right",
    Trouble.CLOCK: "timedatectl: this machine's clock is behind",
    Trouble.LOGIN: "look at --token-file; the queue's side makes a token by edgeagent issuer token new",
    Trouble.CAPTIVE_PORTAL: "curl -v {queue}: something else answers there",
    Trouble.BUSY: "wait a minute, and type it again",
    Trouble.BROKEN_ANSWER: "curl -v {queue}, and install the same version on both sides",
}


class WordsError(RejectedError):
    """What was typed are no words of ours.

    Attributes:
        usage: which there are.
    """

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class AdvisedError(RejectedError):
    """Something is not done, and whoever says so knows what to do.

    Attributes:
        advice: what to type next.
    """

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class AgentDownError(TransientError):
    """No agent answers on the socket."""


class StrangeAnswerError(MalformedError):
    """The agent answered what we cannot read."""


class AskingRefusedError(RejectedError):
    """The agent said no.

    Attributes:
        kind: what stands in the way.
        advice: what it said to do; may be empty.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.kind = refusal.kind
        self.advice = refusal.advice


@dataclass(frozen=True, slots=True)
class Failure:
    """How a command line has failed.

    Attributes:
        kind: for programs.
        messages: what went wrong; each mistake by itself.
        next: what to type next.
        status: to exit with.
        usage: which words there are, where they were wrong.
    """

    kind: str
    messages: Sequence[str]
    next: str
    status: int = EXIT_FAILED
    usage: str = ""

    def tell(self, *, as_json: bool) -> int:
        """Tell people or programs.

        Returns:
            The exit status.
        """
        if as_json:
            told = {"kind": self.kind, "message": "\n".join(self.messages), "next": self.next}
            print(json.dumps({"error": told}, ensure_ascii=True, indent=2))
            return self.status
        if self.usage:
            print(safe(self.usage.rstrip()).replace("\\n", "\n"), file=sys.stderr)
        *before, last = self.messages
        for mistake in before:
            complain(mistake)
        complain(last, self.next)
        return self.status


def failure(
    why: AgentError | ValidationError, path: Sequence[str], arguments: argparse.Namespace | None = None
) -> Failure:
    """What an error comes to.

    Args:
        why: the error.
        path: the nouns and verbs that were typed.
        arguments: what was read of the rest; None where it could not be.
    """
    help_ = " ".join(["edgeagent", *path, "--help"])
    lists = _list_of(path) or help_
    match why:
        case WordsError():
            told = Failure(WORDS, [str(why)], help_, EXIT_WORDS, why.usage)
        case AgentDownError():
            advice = "systemctl status edgeagent, or start it with edgeagent run; edgeagent health"
            told = Failure(AGENT_DOWN, [str(why)], advice, EXIT_NO_AGENT)
        case ConfigurationError():
            # Of a set-up what is wrong mostly stands in the words that were typed.
            is_hubs = path[:1] not in (["issuer"], ["setup"])
            look = "edgeagent config keys" if path == ["config", "check"] else "edgeagent config check"
            advice = _of_file(why) or (look if is_hubs else help_)
            told = Failure(CONFIGURATION, str(why).split("\n"), advice, EXIT_CONFIGURATION)
        case AskingRefusedError():
            told = Failure(why.kind, [str(why)], why.advice or _after(why.kind, path, lists))
        case AdvisedError():
            told = Failure(Kind.REFUSED, [str(why)], why.advice)
        case LinkError():
            queue = None if arguments is None else vars(arguments).get("queue")
            told = Failure(PEER, [str(why)], _OF_PEER[why.trouble].format(queue=queue or "URL"))
        case ValidationError():
            # What was typed fits no request of ours.
            told = Failure(Kind.MALFORMED, [faults(why)], help_)
        case StrangeAnswerError():
            advice = "install the same version on both sides, and systemctl restart edgeagent"
            told = Failure(Kind.FAILED, [str(why)], advice)
        case _:
            kind = _kind_of(why)
            # Said on this side, a no is about what was typed, not about what there is.
            told = Failure(kind, [str(why)], _of_file(why) or _after(kind, path, help_))
    return told


def _kind_of(why: AgentError) -> Kind:
    """What stands in the way, of what went wrong on this side."""
    match why:
        case UnknownError():
            return Kind.UNKNOWN
        case AmbiguousError():
            return Kind.AMBIGUOUS
        case MalformedError():
            return Kind.MALFORMED
        case TransientError():
            return Kind.BUSY
        case BrokenInvariantError():
            return Kind.FAILED
        case _:
            return Kind.REFUSED


def _after(kind: Kind, path: Sequence[str], refused: str) -> str:
    """What to type after a no of some kind."""
    typed = " ".join(["edgeagent", *path])
    return {
        Kind.MALFORMED: f"{typed} --help",
        Kind.UNKNOWN: _list_of(path) or f"{typed} --help",
        Kind.AMBIGUOUS: "type more of it",
        Kind.REFUSED: refused,
        Kind.FORBIDDEN: f"sudo {typed}, or be in the group that is [hub] view_group",
        Kind.BUSY: "edgeagent health, then try again",
        Kind.FAILED: "journalctl -u edgeagent -n 50",
    }[kind]


def _list_of(path: Sequence[str]) -> str:
    """Where it stands what things are called; empty where nowhere."""
    return _LISTS.get(" ".join(path[:2])) or _LISTS.get("".join(path[:1]), "")


def _of_file(why: BaseException) -> str:
    """What to type where a file is at the root of it; empty where none is."""
    cause: BaseException | None = why
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    if cause is None or not isinstance(cause.filename, str | Path):
        return ""
    file = Path(cause.filename)
    match cause:
        case FileExistsError():
            return f"name another file, or put {file} away"
        case FileNotFoundError() if file == DEFAULT_PATH:
            return "sudo edgeagent setup"
        case FileNotFoundError() | NotADirectoryError():
            return f"ls -l {file.parent}"
        case PermissionError():
            return f"ls -ld {file}, and use sudo if you may"
        case _:
            return f"ls -ld {file}; df {file.parent}"
