"""``edgeagent issuer send | watch``: commands into the queue, and what became of them."""

import argparse
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.issuer_asking import add_login, client_of, clock, finished
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import unproven_payload
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import command_id, hub_id

if TYPE_CHECKING:
    from edgeagent.issuer.client import IssuerClient

EXIT_NOT_DONE: Final = 1
EXIT_UNKNOWN: Final = 3
EXIT_STILL_OPEN: Final = 4


def add_queue(verbs: Nouns) -> None:
    """Add the words that speak to the queue."""
    send = verbs.add_parser("send", help="put a signed command into the queue")
    send.add_argument("file", metavar="FILE", help="the envelope; - for standard input")
    add_login(send, required=True)
    send.set_defaults(handler=_send)
    watch = verbs.add_parser(
        "watch",
        help="wait for a command's end",
        description="Wait for a command's end. Exit 0 done; 1 not done; 3 outcome unknown; 4 still open.",
    )
    watch.add_argument("hub", type=hub_id, metavar="HUB")
    watch.add_argument("command", type=command_id, metavar="COMMAND")
    watch.add_argument("--within", type=length_of_time, default=timedelta(minutes=1), help="1m")
    add_login(watch, required=True)
    watch.set_defaults(handler=_watch)


def _send(arguments: argparse.Namespace) -> int:
    envelope = _envelope(arguments.file)
    hub = decode(Command, unproven_payload(envelope), limit=COMMAND_BYTES).hub

    async def send() -> int:
        async with client_of(arguments) as client:
            status = await client.send_envelope(hub, envelope)
        if arguments.json:
            show_json(status)
        else:
            print(f"{status.id} {status.state}")
        return 0

    return finished(send())


def _envelope(file: str) -> bytes:
    """Read what is to be sent."""
    if file == "-":
        envelope = sys.stdin.buffer.read(COMMAND_BYTES + 1).strip()
    else:
        try:
            with Path(file).open("rb") as opened:
                envelope = opened.read(COMMAND_BYTES + 1).strip()
        except OSError as why:
            raise RejectedError(f"cannot read {file}: {why.strerror}") from why
    if len(envelope) > COMMAND_BYTES:
        raise MalformedError(f"more than the {COMMAND_BYTES} bytes that a command may have")
    return envelope


def _watch(arguments: argparse.Namespace) -> int:
    async def watch() -> int:
        async with client_of(arguments) as client:
            return await _end_of(client, arguments)

    return finished(watch())


async def _end_of(client: "IssuerClient", arguments: argparse.Namespace) -> int:
    time = clock()
    deadline = time.boot() + arguments.within
    while True:
        left = deadline - time.boot()
        status = await client.status(arguments.hub, arguments.command, wait=left)
        if status.state.is_over or left <= timedelta(0):
            break
    if arguments.json:
        show_json(status)
    event = status.result
    if event is None or "outcome" not in event.data:
        if not arguments.json:
            print(f"{status.id} {status.state}")
        return EXIT_NOT_DONE if status.state.is_over else EXIT_STILL_OPEN
    outcome = Outcome(str(event.data["outcome"]))
    if not arguments.json:
        words = [event.data.get(name) for name in ("level", "reason", "detail")]
        print(f"{status.id} {outcome} {' '.join(safe(str(word)) for word in words if word)}".rstrip())
    return {Outcome.SUCCEEDED: 0, Outcome.UNKNOWN: EXIT_UNKNOWN}.get(outcome, EXIT_NOT_DONE)
