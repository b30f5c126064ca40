"""Signers that are no file: a command that is given bytes and answers with their signature.

For keys in a hardware token, a cloud's key service, another machine. The command gets the bytes on its
standard input and prints the signature in base64 (RFC 4648, section 4). No shell takes part. It is
believed in nothing: what it prints is bounded in size and time, and has to verify with the public key
that was named before.
"""

import os
import selectors
import shlex
import subprocess
import tempfile
from base64 import b64decode
from binascii import Error as NotBase64Error
from collections.abc import Sequence
from datetime import timedelta
from typing import IO, Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from edgeagent.clock import Clock
from edgeagent.errors import ConfigurationError, RejectedError

ANSWER_BYTES: Final = 1024
"""The most bytes that such a command may print; a signature in base64 has 88."""
_PATIENCE: Final = timedelta(minutes=1)
_CHUNK: Final = 4096


class SigningFailedError(RejectedError):
    """The command did not sign."""


class ExternalSigner:
    """Signs by a command; a ``core.envelope.Signer``."""

    def __init__(
        self, words: Sequence[str], public: bytes, clock: Clock, *, within: timedelta = _PATIENCE
    ) -> None:
        self._words = tuple(words)
        self._public = public
        self._clock = clock
        self._within = within

    @classmethod
    def of_text(cls, text: str, public: bytes, clock: Clock, *, within: timedelta = _PATIENCE) -> Self:
        """Take the command as somebody types it, in one text, with quotes as a shell reads them.

        Raises:
            ConfigurationError: it is empty, or a quote is not closed.
        """
        try:
            words = shlex.split(text)
        except ValueError as why:
            raise ConfigurationError(f"the signer's command: {why}") from why
        if not words:
            raise ConfigurationError("the signer's command is empty")
        return cls(words, public, clock, within=within)

    @property
    def public(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of a signature over ``message``, which was verified.

        Raises:
            SigningFailedError: the command cannot be run, fails, takes too long, prints too much, or what
                it prints is no signature of this key over these bytes.
        """
        printed = self._run(message)
        try:
            signature = b64decode(printed.strip(), validate=True)
        except (NotBase64Error, ValueError) as why:
            raise SigningFailedError("the signer did not print base64") from why
        try:
            Ed25519PublicKey.from_public_bytes(self._public).verify(signature, message)
        except (InvalidSignature, ValueError) as why:
            raise SigningFailedError(
                "what the signer printed is no signature by the public key that was named"
            ) from why
        return signature

    def _run(self, message: bytes) -> bytes:
        with tempfile.TemporaryFile() as given:
            # A file and no pipe: a command that does not read it all makes nobody wait.
            given.write(message)
            given.seek(0)
            try:
                process = subprocess.Popen(self._words, stdin=given, stdout=subprocess.PIPE)  # noqa: S603 - the operator's own command
            except OSError as why:
                raise SigningFailedError(f"{self._words[0]}: {why.strerror}") from why
        with process:
            assert process.stdout is not None  # noqa: S101 - asked for above
            try:
                printed = self._read(process.stdout)
                status = process.wait(self._within.total_seconds())
            except subprocess.TimeoutExpired as why:
                raise SigningFailedError("the signer does not end") from why
            finally:
                if process.poll() is None:
                    process.kill()
        if status != 0:
            raise SigningFailedError(f"the signer ended with status {status}")
        return printed

    def _read(self, pipe: IO[bytes]) -> bytes:
        deadline = self._clock.boot() + self._within
        printed = b""
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while True:
                left = (deadline - self._clock.boot()).total_seconds()
                if left <= 0 or not selector.select(left):
                    raise SigningFailedError(
                        f"the signer took longer than {self._within.total_seconds():g} s"
                    )
                chunk = os.read(pipe.fileno(), _CHUNK)
                printed += chunk
                if len(printed) > ANSWER_BYTES:
                    raise SigningFailedError(f"the signer printed more than {ANSWER_BYTES} bytes")
                if not chunk:
                    return printed
