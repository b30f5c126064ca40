"""``edgeagent issuer send | watch``: commands into the queue, and what became of them."""

import argparse
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.issuer_asking import add_login, client_of, clock, finished
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import EventType
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import type_of, unproven_payload
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import HubId, command_id, hub_id

if TYPE_CHECKING:
    from edgeagent.issuer.client import IssuerClient
    from edgeagent.issuer.wire import CommandStatus, RefusalsAnswer

EXIT_NOT_DONE: Final = 1
EXIT_UNKNOWN: Final = 3
EXIT_STILL_OPEN: Final = 4
_OBEYED: Final = {EventType.STOPPED: "stopped", EventType.RESUMED: "resumed"}


def add_queue(verbs: Nouns) -> None:
    """Add the words that speak to the queue."""
    add_sending(verbs)
    refusals = verbs.add_parser("refusals", help="what the queue's gate refused, and whom it has stopped")
    refusals.add_argument("--most", type=int, default=20, help="20")
    add_login(refusals, required=True)
    refusals.set_defaults(handler=_refusals)


def add_sending(verbs: Nouns) -> None:
    """Add the words that send a command and wait for it."""
    send = verbs.add_parser("send", help="put a signed command or order into the queue")
    send.add_argument("file", metavar="FILE", help="the envelope; - for standard input")
    add_login(send, required=True)
    send.set_defaults(handler=_send)
    watch = verbs.add_parser(
        "watch",
        help="wait for a command's end",
        description="Wait for a command's end on all of its devices. Exit 0 done on all; 1 not done on one; "
        "3 outcome unknown on one; 4 still open.",
    )
    watch.add_argument("hub", type=hub_id, metavar="HUB")
    watch.add_argument("command", type=command_id, metavar="COMMAND")
    watch.add_argument("--within", type=length_of_time, default=timedelta(minutes=1), help="1m")
    add_login(watch, required=True)
    watch.set_defaults(handler=_watch)


def _send(arguments: argparse.Namespace) -> int:
    envelope = read_envelope(arguments.file)
    hub = _hub_of(envelope)

    async def send() -> int:
        async with client_of(arguments) as client:
            status = await client.send_envelope(hub, envelope)
        if arguments.json:
            show_json(status)
        else:
            print(f"{status.id} {status.state}")
        return 0

    return finished(send())


def _hub_of(envelope: bytes) -> HubId:
    """Whom a command or an order is for."""
    payload = unproven_payload(envelope)
    if type_of(envelope, limit=ORDER_BYTES) == ORDER_TYPE:
        return decode(Order, payload, limit=ORDER_BYTES).hub
    return decode(Command, payload, limit=COMMAND_BYTES).hub


def read_envelope(file: str) -> bytes:
    """Read what is to be sent.

    Raises:
        RejectedError: it cannot be read, or is larger than any command.
    """
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


def _refusals(arguments: argparse.Namespace) -> int:
    async def ask() -> "RefusalsAnswer":
        async with client_of(arguments) as client:
            return await client.gate(most=arguments.most)

    told = finished(ask())
    if arguments.json:
        show_json(told)
        return 0
    table(
        ("minute", "count", "reason", "origin", "one of them"),
        [
            (f"{row.minute:%Y-%m-%d %H:%M}", str(row.count), row.reason, row.origin, row.sample or "-")
            for row in told.refusals
        ],
    )
    for breaker in told.breakers:
        words = f"stopped: {breaker.action} of {breaker.origin}, until {breaker.until:%Y-%m-%d %H:%M:%S} UTC"
        print(safe(words))
    return 0


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
    else:
        _show_ends(status)
    if not status.state.is_over:
        return EXIT_STILL_OPEN
    if any(event.type in _OBEYED for event in status.results):
        return 0
    outcomes = {event.data.get("outcome") for event in status.results}
    if Outcome.UNKNOWN in outcomes:
        return EXIT_UNKNOWN
    return 0 if outcomes == {Outcome.SUCCEEDED} else EXIT_NOT_DONE


def _show_ends(status: "CommandStatus") -> None:
    """How a command has ended: a line, or one for each of its devices; or an order, in one."""
    for event in status.results if not status.devices else []:
        told = _OBEYED.get(event.type, "refused")
        words = [event.data.get(word) for word in ("kind", "reason", "detail", "why")]
        print(f"{status.id} {told} {' '.join(safe(str(word)) for word in words if word)}")
    ends = {event.subject: event.data for event in status.results}
    for device in status.devices:
        name = status.id if len(status.devices) == 1 else f"{status.id} {device}"
        end = ends.get(device, {})
        words = [end.get(word) for word in ("level", "reason", "detail")] if end else []
        words += [] if status.reason is None else [str(status.reason)]
        after = end.get("after")
        if end.get("reason") == Reason.STALE and isinstance(after, dict):
            words.append(f"(the device is now at version {after.get('version')})")
        line = " ".join(safe(str(word)) for word in words if word)
        print(f"{name} {safe(str(end.get('outcome', 'refused' if end else status.state)))} {line}".rstrip())
