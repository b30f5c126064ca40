"""``edgeagent issuer command``: from words to a signed command."""

import argparse
import json
import sys
from datetime import timedelta

from edgeagent.cli.arguments import action_of, arguments_of, length_of_time
from edgeagent.cli.issuer_asking import add_login, add_signing, clock, epoch_of, signers_of
from edgeagent.cli.issuer_queue import add_sending, read_envelope
from edgeagent.cli.issuer_resign import add_resign
from edgeagent.cli.words import Nouns
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES, Command, Precondition
from edgeagent.contracts.door import decode
from edgeagent.core.envelope import unproven_payload
from edgeagent.ids import device_id, hub_id
from edgeagent.ids import epoch as checked_epoch
from edgeagent.ids import operation as checked_operation


def add_command(verbs: Nouns) -> None:
    """Add the words that make commands."""
    command = verbs.add_parser("command", help="commands").add_subparsers(required=True, metavar="VERB")
    sign = command.add_parser("sign", help="sign a command; prints its envelope")
    sign.add_argument("devices", metavar="DEVICE[,DEVICE...]")
    sign.add_argument("action", metavar="ACTION", help=", ".join(ActionName))
    sign.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[])
    add_signing(sign)
    sign.add_argument("--hub", required=True, type=hub_id)
    sign.add_argument("--epoch", type=checked_epoch, help="the hub's epoch; the queue is asked if absent")
    sign.add_argument("--valid-for", type=length_of_time, default=timedelta(minutes=5), help="5m")
    sign.add_argument("--operation", type=checked_operation, help="the intent; the command's id if absent")
    sign.add_argument("--if-version", type=int, help="only if the device is at this version")
    add_login(sign, required=False)
    sign.set_defaults(handler=_sign_command)
    approve = command.add_parser("approve", help="add a signature to another's command; prints its envelope")
    approve.add_argument("file", metavar="FILE", help="the envelope; - for standard input")
    add_signing(approve)
    approve.set_defaults(handler=_approve_command)
    add_sending(command)
    add_resign(command)


def _sign_command(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.commands import Intent, Issuer

    action = action_of(arguments.action)
    version = arguments.if_version
    intent = Intent(
        hub=arguments.hub,
        epoch=epoch_of(arguments),
        devices=[device_id(each) for each in arguments.devices.split(",")],
        action=action,
        arguments=arguments_of(action, arguments.arguments),
        valid_for=arguments.valid_for,
        operation=arguments.operation,
        precondition=None if version is None else Precondition(version=version),
    )
    signed = Issuer(signers_of(arguments), clock()).sign(intent)
    print(signed.envelope.decode())
    return 0


def _approve_command(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.commands import approved

    envelope = read_envelope(arguments.file)
    both = approved(envelope, signers_of(arguments))
    command = decode(Command, unproven_payload(envelope), limit=COMMAND_BYTES)
    words = [f"{name}={json.dumps(value)}" for name, value in command.arguments.items()]
    about = f"{', '.join(command.devices)} {' '.join([command.action, *words])}"
    print(f"approved {command.id}: {about}, at {command.hub}", file=sys.stderr)
    print(both.decode())
    return 0
