"""``edgeagent issuer``: the signing side and the reference queue server.

    keys new | token new | policy sign | command sign | send | watch | serve

It is for the machine of whoever operates hubs, not for a hub; what it needs is imported where it is used.
"""

import argparse
import asyncio
import sys
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from edgeagent.cli.arguments import action_of, arguments_of, length_of_time
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES, Command, Precondition
from edgeagent.contracts.door import decode
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import unproven_payload
from edgeagent.errors import ConfigurationError, MalformedError, RejectedError
from edgeagent.ids import command_id, device_id, hub_id
from edgeagent.ids import epoch as checked_epoch
from edgeagent.ids import operation as checked_operation

if TYPE_CHECKING:
    from edgeagent.clock import ProvenClock
    from edgeagent.issuer.client import IssuerClient
    from edgeagent.issuer.keys import PrivateKey
    from edgeagent.issuer.wire import CommandStatus

EXIT_NOT_DONE: Final = 1
EXIT_UNKNOWN: Final = 3
EXIT_STILL_OPEN: Final = 4
T = TypeVar("T")


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    issuer = nouns.add_parser("issuer", help="the signing side, and the reference queue server")
    verbs = issuer.add_subparsers(required=True, metavar="VERB")
    _add_keys(verbs)
    _add_policy(verbs)
    _add_command(verbs)
    _add_queue(verbs)
    _add_serve(verbs)


def _add_keys(verbs: Nouns) -> None:
    keys = verbs.add_parser("keys", help="keys that sign").add_subparsers(required=True, metavar="VERB")
    new = keys.add_parser("new", help="make a key: FILE holds it, FILE.pub its public half")
    new.add_argument("file", type=Path, metavar="FILE")
    new.add_argument("--passphrase-file", type=Path, help="encrypt it with the text in this file")
    new.set_defaults(handler=_new_key)
    show = keys.add_parser("show", help="the id and public half of a key; for [policy] signer")
    show.add_argument("file", type=Path, metavar="FILE.pub")
    show.set_defaults(handler=_show_key)
    tokens = verbs.add_parser("token", help="logins to the queue").add_subparsers(
        required=True, metavar="VERB"
    )
    token = tokens.add_parser("new", help="make a token, add its digest to the server's file, print it")
    token.add_argument("name", metavar="NAME")
    token.add_argument("role", metavar="ROLE", help="hub:ID, issuer or audit")
    token.add_argument("--tokens", type=Path, required=True, metavar="FILE", help="the server's file")
    token.set_defaults(handler=_new_token)


def _add_policy(verbs: Nouns) -> None:
    policy = verbs.add_parser("policy", help="who may do what").add_subparsers(required=True, metavar="VERB")
    sign = policy.add_parser("sign", help="sign a policy that is written in TOML")
    sign.add_argument("file", type=Path, metavar="POLICY.toml")
    _add_signing(sign)
    sign.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the signed policy goes")
    sign.set_defaults(handler=_sign_policy)


def _add_command(verbs: Nouns) -> None:
    command = verbs.add_parser("command", help="commands").add_subparsers(required=True, metavar="VERB")
    sign = command.add_parser("sign", help="sign a command; prints its envelope")
    sign.add_argument("devices", metavar="DEVICE[,DEVICE...]")
    sign.add_argument("action", metavar="ACTION", help=", ".join(ActionName))
    sign.add_argument("arguments", metavar="NAME=VALUE", nargs="*")
    _add_signing(sign)
    sign.add_argument("--hub", required=True, type=hub_id)
    sign.add_argument("--epoch", type=checked_epoch, help="the hub's epoch; the queue is asked if absent")
    sign.add_argument("--valid-for", type=length_of_time, default=timedelta(minutes=5), help="5m")
    sign.add_argument("--operation", type=checked_operation, help="the intent; the command's id if absent")
    sign.add_argument("--if-version", type=int, help="only if the device is at this version")
    _add_login(sign, required=False)
    sign.set_defaults(handler=_sign_command)


def _add_queue(verbs: Nouns) -> None:
    send = verbs.add_parser("send", help="put a signed command into the queue")
    send.add_argument("file", metavar="FILE", help="the envelope; - for standard input")
    _add_login(send, required=True)
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
    _add_login(watch, required=True)
    watch.set_defaults(handler=_watch)


def _add_serve(verbs: Nouns) -> None:
    serve = verbs.add_parser("serve", help="run the reference queue server until it is told to stop")
    serve.add_argument("--listen", default="127.0.0.1:8443", metavar="HOST:PORT")
    serve.add_argument("--database", type=Path, required=True)
    serve.add_argument("--tokens", type=Path, required=True, help="logins; see edgeagent issuer token new")
    serve.add_argument("--time-key", type=Path, help="the key that signs the time")
    serve.add_argument("--policy", type=Path, help="the signed policy, to refuse early what hubs would")
    serve.add_argument("--tls-cert", type=Path, help="certificate chain; none is for loopback only")
    serve.add_argument("--tls-key", type=Path, help="its key")
    serve.set_defaults(handler=_serve)


def _add_signing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key", type=Path, action="append", required=True, metavar="FILE", help="signs; may be repeated"
    )
    parser.add_argument("--passphrase-file", type=Path, help="of the keys, if they are encrypted")


def _add_login(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--queue", required=required, metavar="URL", help="the queue's address")
    parser.add_argument("--token-file", type=Path, required=required, help="holds our token")
    parser.add_argument("--ca-file", type=Path, help="certificates to trust; the system's if absent")


def _new_key(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.keys import PrivateKey, save_key, save_public_key

    key = PrivateKey.new()
    save_key(key, arguments.file, passphrase=_passphrase(arguments))
    public = arguments.file.with_name(arguments.file.name + ".pub")
    save_public_key(key.public, public)
    print(f"key     {key.id}\npublic  {key.public.hex()}\nfiles   {arguments.file} {public}")
    return 0


def _show_key(arguments: argparse.Namespace) -> int:
    from edgeagent.contracts.policy import id_of_key
    from edgeagent.issuer.keys import load_public_key

    public = load_public_key(arguments.file)
    print(f"key     {id_of_key(public)}\npublic  {public.hex()}")
    return 0


def _new_token(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.tokens import entry_text, new_token

    token = new_token()
    entry = entry_text(arguments.name, arguments.role, token)
    try:
        with arguments.tokens.open("a", encoding="utf-8") as file:
            file.write(entry)
        arguments.tokens.chmod(0o600)
    except OSError as why:
        raise ConfigurationError(f"cannot write {arguments.tokens}: {why.strerror}") from why
    print(token)
    return 0


def _sign_policy(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.policies import load_policy, sign_policy

    policy = load_policy(arguments.file, now=_clock().wall().best)
    envelope = sign_policy(policy, _keys(arguments))
    try:
        arguments.out.write_bytes(envelope)
    except OSError as why:
        raise ConfigurationError(f"cannot write {arguments.out}: {why.strerror}") from why
    print(f"policy version {policy.version}, until {policy.expires_at:%Y-%m-%d}: {arguments.out}")
    return 0


def _sign_command(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.commands import Intent, Issuer

    epoch = arguments.epoch
    if epoch is None:
        if arguments.queue is None or arguments.token_file is None:
            raise RejectedError("name the hub's --epoch, or a --queue with a --token-file to ask")
        epoch = _run(_epoch_of(arguments))
    action = action_of(arguments.action)
    version = arguments.if_version
    intent = Intent(
        hub=arguments.hub,
        epoch=epoch,
        devices=[device_id(each) for each in arguments.devices.split(",")],
        action=action,
        arguments=arguments_of(action, arguments.arguments),
        valid_for=arguments.valid_for,
        operation=arguments.operation,
        precondition=None if version is None else Precondition(version=version),
    )
    signed = Issuer(_keys(arguments), _clock()).sign(intent)
    print(signed.envelope.decode())
    return 0


async def _epoch_of(arguments: argparse.Namespace) -> str:
    async with _client(arguments) as client:
        hub = await client.hub(arguments.hub)
    if hub.epoch is None:
        raise RejectedError(f"the queue has never heard of {arguments.hub}")
    return hub.epoch


def _send(arguments: argparse.Namespace) -> int:
    envelope = _envelope(arguments.file)
    hub = decode(Command, unproven_payload(envelope), limit=COMMAND_BYTES).hub

    async def send() -> int:
        async with _client(arguments) as client:
            status = await client.send_envelope(hub, envelope)
        if arguments.json:
            show_json(status)
        else:
            print(f"{status.id} {status.state}")
        return 0

    return _run(send())


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
        async with _client(arguments) as client:
            return await _end_of(client, arguments)

    return _run(watch())


async def _end_of(client: "IssuerClient", arguments: argparse.Namespace) -> int:
    clock = _clock()
    deadline = clock.boot() + arguments.within
    while True:
        left = deadline - clock.boot()
        status = await client.status(arguments.hub, arguments.command, wait=left)
        if status.state.is_over or left <= timedelta(0):
            break
    if arguments.json:
        show_json(status)
    else:
        _show_ends(status)
    if not status.state.is_over:
        return EXIT_STILL_OPEN
    outcomes = {event.data.get("outcome") for event in status.results}
    if Outcome.UNKNOWN in outcomes:
        return EXIT_UNKNOWN
    return 0 if outcomes == {Outcome.SUCCEEDED} else EXIT_NOT_DONE


def _show_ends(status: "CommandStatus") -> None:
    """How a command has ended: a line, or one for each of its devices."""
    ends = {event.subject: event.data for event in status.results}
    for device in status.devices:
        name = status.id if len(status.devices) == 1 else f"{status.id} {device}"
        end = ends.get(device, {})
        words = [end.get(word) for word in ("level", "reason", "detail")]
        after = end.get("after")
        if end.get("reason") == Reason.STALE and isinstance(after, dict):
            words.append(f"(the device is now at version {after.get('version')})")
        line = " ".join(safe(str(word)) for word in words if word)
        print(f"{name} {safe(str(end.get('outcome', 'refused' if end else status.state)))} {line}".rstrip())


def _serve(arguments: argparse.Namespace) -> int:
    from edgeagent import logs
    from edgeagent.issuer.server import run
    from edgeagent.issuer.settings import ServerSettings

    logs.set_up("info")
    host, _, port = arguments.listen.rpartition(":")
    if not port.isdigit():
        raise ConfigurationError(f"--listen {arguments.listen}: not HOST:PORT")
    settings = ServerSettings(
        host=host.strip("[]"),
        port=int(port),
        database=arguments.database,
        tokens=arguments.tokens,
        certificate=arguments.tls_cert,
        key=arguments.tls_key,
        time_key=arguments.time_key,
        policy=arguments.policy,
    )
    run(settings, _clock(), listening=lambda number: print(f"listening on {host}:{number}", flush=True))
    return 0


def _client(arguments: argparse.Namespace) -> "IssuerClient":
    from edgeagent.adapters.cloud.settings import CloudSettings, Token
    from edgeagent.issuer.client import IssuerClient

    try:
        token = Token(arguments.token_file.read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as why:
        raise ConfigurationError(f"cannot read {arguments.token_file}") from why
    return IssuerClient(CloudSettings(url=arguments.queue, token=token, ca_file=arguments.ca_file), _clock())


def _keys(arguments: argparse.Namespace) -> "list[PrivateKey]":
    from edgeagent.issuer.keys import load_key

    passphrase = _passphrase(arguments)
    return [load_key(file, passphrase=passphrase) for file in arguments.key]


def _passphrase(arguments: argparse.Namespace) -> bytes | None:
    if arguments.passphrase_file is None:
        return None
    try:
        passphrase: bytes = arguments.passphrase_file.read_bytes().strip()
    except OSError as why:
        raise ConfigurationError(f"cannot read {arguments.passphrase_file}: {why.strerror}") from why
    return passphrase


def _clock() -> "ProvenClock":
    from edgeagent.clock import ProvenClock, SystemTime

    return ProvenClock(SystemTime())


def _run(work: Coroutine[None, None, T]) -> T:
    return asyncio.run(work)
