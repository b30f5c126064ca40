"""Signing by somebody else's command: it is given bytes, and believed in nothing."""

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.core.envelope import verify
from edgeagent.errors import ConfigurationError
from edgeagent.ids import hub_id
from edgeagent.issuer.commands import Issuer
from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.signers import ExternalSigner, SigningFailedError
from tests.issuer.building import intent, real_clock

# What an operator would write around a hardware token.
TOOL = """
import base64, sys
from pathlib import Path
from edgeagent.issuer.keys import load_key
print(base64.b64encode(load_key(Path(sys.argv[1])).sign(sys.stdin.buffer.read())).decode())
"""


def external(*words: str, public: bytes, within: timedelta = timedelta(seconds=30)) -> ExternalSigner:
    """A signer by a command of Python."""
    return ExternalSigner([sys.executable, "-c", *words], public, real_clock(), within=within)


@pytest.mark.requirement("P1")
def test_a_command_signs_in_place_of_a_key(tmp_path: Path) -> None:
    key = PrivateKey.new()
    save_key(key, tmp_path / "desk key.pem")
    signer = ExternalSigner.of_text(
        f"{sys.executable} -c '{TOOL}' '{tmp_path}/desk key.pem'", key.public, real_clock()
    )

    signed = Issuer([signer], real_clock()).sign(intent(hub_id("venue-7")))

    keyring = {key.id: key.public}
    assert verify(signed.envelope, keyring, COMMAND_TYPE, limit=COMMAND_BYTES).signers == (key.id,)


@pytest.mark.requirement("P1")
@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("print('no signature!')", "did not print base64", id="no base64"),
        pytest.param("print('AAAA')", "no signature by the public key", id="too short"),
        pytest.param(
            "import base64; print(base64.b64encode(b'x' * 64).decode())", "no signature", id="chance"
        ),
        pytest.param("pass", "no signature", id="nothing"),
        pytest.param("print('A' * 5000)", "more than 1024 bytes", id="too much"),
        pytest.param("while True: print('A' * 5000)", "more than 1024 bytes", id="without an end"),
        pytest.param("raise SystemExit(3)", "status 3", id="it fails"),
    ],
)
def test_a_command_that_does_not_sign_is_not_believed(program: str, words: str) -> None:
    with pytest.raises(SigningFailedError, match=words):
        external(program, public=PrivateKey.new().public).sign(b"bytes")


@pytest.mark.requirement("P1")
def test_another_keys_signature_is_not_taken(tmp_path: Path) -> None:
    save_key(PrivateKey.new(), tmp_path / "other.pem")

    with pytest.raises(SigningFailedError, match="public key that was named"):
        external(TOOL, str(tmp_path / "other.pem"), public=PrivateKey.new().public).sign(b"bytes")


def test_a_command_that_hangs_is_given_up() -> None:
    signer = external(
        "import time; time.sleep(60)", public=PrivateKey.new().public, within=timedelta(seconds=0.5)
    )

    with pytest.raises(SigningFailedError, match=r"longer than 0\.5 s"):
        signer.sign(b"bytes")


def test_a_command_that_does_not_exist_is_named() -> None:
    signer = ExternalSigner.of_text("/nowhere/sign --key 1", PrivateKey.new().public, real_clock())

    with pytest.raises(SigningFailedError, match="/nowhere/sign: No such file"):
        signer.sign(b"bytes")


@pytest.mark.parametrize("text", ["", "   ", "sign 'half"])
def test_a_command_that_is_none_is_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigurationError, match="signer's command"):
        ExternalSigner.of_text(text, PrivateKey.new().public, real_clock())
