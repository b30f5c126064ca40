"""What the verbs of ``edgeagent issuer`` share: who signs, which queue is asked and with which token."""

import argparse
import asyncio
import getpass
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from edgeagent.errors import ConfigurationError, RejectedError
from edgeagent.ids import Epoch
from edgeagent.ids import epoch as checked_epoch
from edgeagent.secret_files import check_private

if TYPE_CHECKING:
    from edgeagent.clock import ProvenClock
    from edgeagent.core.envelope import Signer
    from edgeagent.issuer.client import IssuerClient

T = TypeVar("T")

_OF_SIGNER: Final = "the public key that COMMAND signs with"
_PASSPHRASE_BYTES: Final = 4096
_SHORTEST_PASSPHRASE: Final = 12


def add_signing(parser: argparse.ArgumentParser) -> None:
    """Add the words that say who signs: keys in files, or a command that signs."""
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--key", type=Path, action="append", metavar="FILE", help="signs; may be repeated")
    _add_signer(ways)
    parser.add_argument("--signer-public", type=Path, metavar="FILE.pub", help=_OF_SIGNER)
    add_passphrase(parser)


def add_external(parser: argparse.ArgumentParser) -> None:
    """Add the words for a command that signs, where a folder holds the other keys."""
    _add_signer(parser)
    parser.add_argument("--signer-public", type=Path, metavar="FILE.pub", help=_OF_SIGNER)


def _add_signer(ways: argparse._ActionsContainer) -> None:
    ways.add_argument(
        "--signer", metavar="COMMAND", help="gets the bytes on standard input, prints the signature in base64"
    )


def add_passphrase(parser: argparse.ArgumentParser) -> None:
    """Add the word for the passphrase of encrypted keys."""
    parser.add_argument(
        "--passphrase-file",
        type=Path,
        metavar="FILE",
        help="of encrypted keys; a terminal is asked if absent",
    )


def add_login(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the words for a queue and our token there."""
    parser.add_argument("--queue", required=required, metavar="URL", help="the queue's address")
    parser.add_argument("--token-file", type=Path, required=required, help="holds our token")
    parser.add_argument("--ca-file", type=Path, help="certificates to trust; the system's if absent")


def client_of(arguments: argparse.Namespace) -> "IssuerClient":
    """Our end of the queue.

    Raises:
        ConfigurationError: the token cannot be read, or others on this machine may read it too.
    """
    from edgeagent.adapters.cloud.settings import CloudSettings, Token
    from edgeagent.issuer.client import IssuerClient

    check_private(arguments.token_file)
    try:
        token = Token(arguments.token_file.read_text("utf-8").strip())
    except OSError as why:
        raise ConfigurationError(f"cannot read {arguments.token_file}: {why.strerror}") from why
    except UnicodeDecodeError as why:
        raise ConfigurationError(f"{arguments.token_file}: no token is in it") from why
    return IssuerClient(CloudSettings(url=arguments.queue, token=token, ca_file=arguments.ca_file), clock())


def signers_of(arguments: argparse.Namespace) -> "Sequence[Signer]":
    """Who signs.

    Raises:
        ConfigurationError: a key cannot be read or needs a passphrase that is not to be had, or the
            signing command comes without its public key.
    """
    external = external_signer_of(arguments)
    if external is not None:
        return [external]
    from edgeagent.issuer.keys import is_encrypted, load_key

    passphrase = passphrase_of(arguments)
    if passphrase is None and any(is_encrypted(file) for file in arguments.key):
        passphrase = asked_passphrase("passphrase of the keys: ")
    return [load_key(file, passphrase=passphrase) for file in arguments.key]


def external_signer_of(arguments: argparse.Namespace) -> "Signer | None":
    """The command that signs; None where none was named.

    Raises:
        ConfigurationError: it comes without its public key, or the other way round.
    """
    if (arguments.signer is None) != (arguments.signer_public is None):
        raise ConfigurationError("--signer and --signer-public belong together")
    if arguments.signer is None:
        return None
    from edgeagent.issuer.keys import load_public_key
    from edgeagent.issuer.signers import ExternalSigner

    return ExternalSigner.of_text(arguments.signer, load_public_key(arguments.signer_public), clock())


def passphrase_of(arguments: argparse.Namespace) -> bytes | None:
    """The passphrase in the file that was named; None where none was.

    Raises:
        ConfigurationError: it cannot be read, or others may use it, or nothing is in it.
    """
    if arguments.passphrase_file is None:
        return None
    try:
        if arguments.passphrase_file.is_file():  # and no pipe of a program that keeps passphrases
            check_private(arguments.passphrase_file)
        with arguments.passphrase_file.open("rb") as file:
            passphrase: bytes = file.read(_PASSPHRASE_BYTES).strip()
    except OSError as why:
        raise ConfigurationError(f"cannot read {arguments.passphrase_file}: {why.strerror}") from why
    if not passphrase:
        raise ConfigurationError(f"{arguments.passphrase_file}: no passphrase is in it")
    return passphrase


def asked_passphrase(question: str) -> bytes:
    """Ask for a passphrase where somebody sits; it is not shown.

    Raises:
        ConfigurationError: nobody does, or gives one.
    """
    if not sys.stdin.isatty():
        raise ConfigurationError("a passphrase is needed: name a --passphrase-file, or sit at a terminal")
    try:
        return getpass.getpass(question).strip().encode()
    except EOFError:
        raise ConfigurationError("no passphrase was given") from None
    except UnicodeError:
        raise ConfigurationError("that passphrase is no text in this terminal's encoding") from None


def new_passphrase(arguments: argparse.Namespace) -> bytes:
    """The passphrase for new keys: from its file, or asked twice.

    Raises:
        ConfigurationError: it is short, or the two are not the same, or nobody can be asked.
    """
    passphrase = passphrase_of(arguments)
    if passphrase is None:
        passphrase = asked_passphrase("new passphrase of the offline keys: ")
        if asked_passphrase("once more: ") != passphrase:
            raise ConfigurationError("the two passphrases differ; nothing was made")
    if len(passphrase) < _SHORTEST_PASSPHRASE:
        raise ConfigurationError(f"a passphrase of offline keys has at least {_SHORTEST_PASSPHRASE} signs")
    return passphrase


def clock() -> "ProvenClock":
    """This machine's clock."""
    from edgeagent.clock import ProvenClock, SystemTime

    return ProvenClock(SystemTime())


def finished(work: Coroutine[None, None, T]) -> T:
    """Wait for some work."""
    return asyncio.run(work)


def epoch_of(arguments: argparse.Namespace) -> Epoch:
    """The epoch of a hub, as typed or as the queue knows it.

    Raises:
        RejectedError: neither says it.
    """
    if arguments.epoch is not None:
        return checked_epoch(arguments.epoch)
    if arguments.queue is None or arguments.token_file is None:
        raise RejectedError("name the hub's --epoch, or a --queue with a --token-file to ask")
    return finished(_asked_epoch(arguments))


async def _asked_epoch(arguments: argparse.Namespace) -> Epoch:
    async with client_of(arguments) as client:
        hub = await client.hub(arguments.hub)
    if hub.epoch is None:
        raise RejectedError(f"the queue has never heard of {arguments.hub}")
    return hub.epoch
