"""Passwords as mosquitto keeps them: ours are good for it, and its own for us."""

import subprocess
from pathlib import Path

import pytest

from edgeagent.setup.broker.passwords import hashed, new_password, verifies
from tests.support.brokers import Mosquitto
from tests.support.device import Device

pytestmark = pytest.mark.requirement("H5")


def test_what_mosquittos_own_tool_has_written_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(file), "tv", "secret"], check=True)
    stored = file.read_text().strip().partition(":")[2]

    assert verifies("secret", stored)
    assert not verifies("Secret", stored)


def test_mosquitto_lets_in_who_has_a_password_that_we_have_made(tmp_path: Path) -> None:
    password, file = new_password(), tmp_path / "passwd"
    file.write_text(f"# ours\ntv:{hashed(password)}\n")
    with (
        Mosquitto(tmp_path / "broker", options=[f"password_file {file}"], anonymous=False) as broker,
        Device(broker.port, login=("tv", password)) as device,
    ):
        assert device.may_say("a", b"1")


NO_HASHES = (
    *("", "secret", "$6$salt$hash"),
    *("$7$101$####$####", "$7$0$AAAA$AAAA", "$7$x$A$A", f"$7${10**9}$AAAA$AAAA"),
)


@pytest.mark.parametrize("stored", NO_HASHES)
def test_what_is_no_hash_of_that_form_is_nobodys(stored: str) -> None:
    assert not verifies("secret", stored)


def test_no_two_are_alike_and_each_can_be_typed_into_any_menu() -> None:
    made = {new_password() for _ in range(100)}

    assert len(made) == 100
    assert all(len(each) == 27 and each.replace("-", "x").replace("_", "x").isalnum() for each in made)
    assert hashed("a") != hashed("a")
