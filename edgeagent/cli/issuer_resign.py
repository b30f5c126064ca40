"""``edgeagent issuer command resign``: what was signed for a lost database, signed for the present one."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from edgeagent.cli.agreeing import agrees
from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.failing import PEER, AdvisedError
from edgeagent.cli.issuer_asking import add_login, add_signing, client_of, clock, finished, signers_of
from edgeagent.cli.issuer_queue import read_envelope
from edgeagent.cli.printing import complain, safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.errors import RejectedError, TransientError
from edgeagent.ids import CommandId, Epoch, command_id, hub_id
from edgeagent.ids import epoch as checked_epoch
from edgeagent.values import dataclass

if TYPE_CHECKING:
    from edgeagent.contracts.command import Command
    from edgeagent.issuer.client import IssuerClient
    from edgeagent.issuer.commands import Issuer


def add_resign(verbs: Nouns) -> None:
    """Add the word that signs anew."""
    resign = verbs.add_parser(
        "resign",
        help="sign anew what a hub refused because its database is another one now",
        description="Sign the same intent anew: same operation; new id, sequence, time and epoch.",
    )
    what = resign.add_mutually_exclusive_group(required=True)
    what.add_argument("command", nargs="?", type=command_id, metavar="COMMAND")
    what.add_argument("--all", action="store_true", help="each that is not expired; asked for one by one")
    what.add_argument("--file", metavar="FILE", help="its envelope; prints the new one and sends nothing")
    resign.add_argument("--hub", type=hub_id, metavar="HUB", help="whose command it is")
    resign.add_argument(
        "--epoch", type=checked_epoch, help="with --file: the hub's; the queue is asked if absent"
    )
    resign.add_argument("--valid-for", type=length_of_time, help="as long as the old one if absent")
    resign.add_argument("--yes", action="store_true", help="with --all: do not ask")
    add_signing(resign)
    add_login(resign, required=False)
    resign.set_defaults(handler=_resign)


def _resign(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.commands import Issuer

    issuer = Issuer(signers_of(arguments), clock())
    if arguments.file is not None:
        return finished(_of_file(arguments, issuer))
    if arguments.hub is None or arguments.queue is None or arguments.token_file is None:
        raise RejectedError("name the --hub, and the --queue with a --token-file")
    if arguments.all and not arguments.yes and not sys.stdin.isatty():
        raise AdvisedError("--all asks for each command: nobody is there to be asked", "add --yes")
    return finished(_of_queue(arguments, issuer))


async def _of_file(arguments: argparse.Namespace, issuer: "Issuer") -> int:
    from edgeagent.issuer.resigning import command_in, same_intent

    command = command_in(read_envelope(arguments.file))
    epoch = arguments.epoch
    if epoch is None:
        if arguments.queue is None or arguments.token_file is None:
            raise RejectedError("name the hub's --epoch, or a --queue with a --token-file to ask")
        async with client_of(arguments) as client:
            epoch = await _epoch_of(client, command)
    signed = issuer.sign(same_intent(command, epoch, valid_for=arguments.valid_for))
    print(signed.envelope.decode())
    return 0


async def _of_queue(arguments: argparse.Namespace, issuer: "Issuer") -> int:
    from edgeagent.issuer.resigning import refused_for_their_epoch

    async with client_of(arguments) as client:
        if not arguments.all:
            command = await _refused(client, arguments, arguments.command)
            anew = _said(arguments, await _send_anew(client, arguments, issuer, command))
            return _tell(arguments, [anew])
        status, told = 0, list[_Anew]()
        try:
            async for id_ in refused_for_their_epoch(client, arguments.hub):
                try:
                    command = await _refused(client, arguments, id_)
                    if command.expires_at <= clock().wall().best:
                        told.append(_said(arguments, _Anew(command, failed="its time is over")))
                    elif arguments.yes or _is_wanted(command):
                        told.append(_said(arguments, await _send_anew(client, arguments, issuer, command)))
                except RejectedError as why:
                    # One that cannot be signed anew keeps none of the others from it.
                    complain(f"{id_}: {why}", f"edgeagent issuer watch {arguments.hub} {id_}")
                    status = 1
        except TransientError as why:
            if not arguments.json:
                raise
            # What was signed anew has to be known, whatever comes after it.
            return _tell(arguments, told, failed=str(why))
        return _tell(arguments, told) or status


@dataclass(frozen=True, slots=True)
class _Anew:
    """What became of a command that was to be signed anew.

    Attributes:
        old: the command.
        new: the id of the new one; None where there is none.
        failed: why not.
    """

    old: "Command"
    new: CommandId | None = None
    failed: str = ""


def _said(arguments: argparse.Namespace, anew: _Anew) -> _Anew:
    """Tell people at once what became of a command."""
    became = f"signed anew as {anew.new}, the same operation {anew.old.operation}"
    if not arguments.json:
        print(safe(f"{anew.old.id} {anew.failed or became}"), flush=True)
    return anew


def _tell(arguments: argparse.Namespace, told: Sequence[_Anew], failed: str = "") -> int:
    """Tell programs at the end what became of all; and what has ended it too early."""
    if not arguments.json:
        return 0
    commands: list[JsonValue] = [
        {"command": each.old.id, "anew": each.new, "operation": each.old.operation, "why": each.failed}
        for each in told
    ]
    facts: dict[str, JsonValue] = {"commands": commands}
    if failed:
        facts["error"] = {"kind": PEER, "message": failed, "next": "type it again"}
    show_json(facts)
    return 1 if failed else 0


async def _refused(client: "IssuerClient", arguments: argparse.Namespace, id_: CommandId) -> "Command":
    """A command that its hub has refused for its epoch.

    Raises:
        RejectedError: it ended otherwise, or not at all: it may have had an effect.
    """
    from edgeagent.issuer.resigning import command_in, was_refused_for_its_epoch

    status = await client.status(arguments.hub, id_)
    if not was_refused_for_its_epoch(status):
        raise AdvisedError(
            f"command {id_} was not refused for its epoch", f"edgeagent issuer watch {arguments.hub} {id_}"
        )
    return command_in((await client.envelopes(arguments.hub, id_))[-1])


async def _send_anew(
    client: "IssuerClient", arguments: argparse.Namespace, issuer: "Issuer", command: "Command"
) -> _Anew:
    from edgeagent.issuer.resigning import same_intent

    epoch = await _epoch_of(client, command)
    signed = issuer.sign(same_intent(command, epoch, valid_for=arguments.valid_for))
    await client.send(signed)
    return _Anew(command, signed.command.id)


async def _epoch_of(client: "IssuerClient", command: "Command") -> Epoch:
    hub = await client.hub(command.hub)
    if hub.epoch is None:
        raise RejectedError(f"the queue has never heard of {command.hub}")
    return hub.epoch


def _is_wanted(command: "Command") -> bool:
    words = " ".join(f"{name}={value}" for name, value in command.arguments.items())
    return agrees(
        f"{command.id}  {', '.join(command.devices)}  {command.action} {words}: sign it anew?", "add --yes"
    )
