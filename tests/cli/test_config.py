"""``edgeagent config check | show | keys``, and where the configuration is looked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.building import Said, typed
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("H4")

HUB = '[hub]\nid = "venue-7"\n'
OWN = '[profiles]\ndirectory = "own"\n'


def checked(folder: Path, text: str, *options: str) -> Said:
    """What ``config check`` says to a file of this text."""
    (folder / "config.toml").write_text(text, "utf-8")
    return typed("--config", str(folder / "config.toml"), *options, "config", "check")


class TestCheck:
    """Every mistake, before anything is started."""

    def test_a_file_that_is_in_order(self, tmp_path: Path) -> None:
        said = checked(tmp_path, HUB)

        assert (said.status, said.out) == (0, f"{tmp_path / 'config.toml'} is in order\n")

    def test_every_mistake_is_told_with_its_line(self, tmp_path: Path) -> None:
        said = checked(tmp_path, HUB + "[broker]\nport = 0\nhots = 1\n")

        assert (said.status, said.out) == (78, "")
        assert "config.toml:4: broker.port: " in said.err
        assert "config.toml:5: broker.hots: there is no such key; did you mean host?" in said.err

    @pytest.mark.requirement("A2", "W3")
    def test_a_secret_that_others_may_read_is_told_and_not_shown(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text("hunter2")
        (tmp_path / "password").chmod(0o644)

        said = checked(tmp_path, HUB + '[broker]\nusername = "agent"\npassword_file = "password"\n')

        assert said.status == 78
        assert "chmod 600" in said.err
        assert "hunter2" not in said.err + said.out

    @pytest.mark.requirement("M4")
    def test_a_broker_of_the_hubs_own_whose_password_is_not_made_yet_names_who_makes_it(
        self, tmp_path: Path
    ) -> None:
        login = 'port = 1884\nusername = "agent"\npassword_file = "password"\n'

        said = checked(tmp_path, f'{HUB}[broker]\n{login}[broker.managed]\nlisten = "0.0.0.0:1883"\n')

        assert said.status == 78
        assert "sudo edgeagent broker apply --restart" in said.err

    def test_what_the_file_names_is_looked_at_too_all_of_it(self, tmp_path: Path) -> None:
        said = checked(
            tmp_path,
            f'{HUB}[broker]\nkeepalive = "0s"\n[cloud]\nurl = "http://q.example"\ntoken_file = "none"\n{OWN}',
        )

        assert said.status == 78
        assert "keepalive must be" in said.err
        assert "cannot read the secret" in said.err
        assert "the folder of profiles" in said.err

    def test_a_profile_with_a_mistake_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "bell.toml").write_text('format = 1\nid = "bell"\n')

        said = checked(tmp_path, HUB + OWN)

        assert said.status == 78
        assert "bell.toml" in said.err

    @pytest.mark.requirement("A2")
    def test_as_json_it_is_the_whole_configuration_without_a_secret(self, tmp_path: Path) -> None:
        write_private(tmp_path / "password", "hunter2")

        said = checked(tmp_path, HUB + '[broker]\nusername = "agent"\npassword_file = "password"\n', "--json")

        assert said.status == 0
        fields = json.loads(said.out)
        assert fields["hub"]["id"] == "venue-7"
        assert fields["broker"]["password_file"] == "password"  # noqa: S105 - the name of the file
        assert "hunter2" not in said.out

    def test_a_file_that_is_missing(self, tmp_path: Path) -> None:
        said = typed("--config", str(tmp_path / "none.toml"), "config", "check")

        assert said.status == 78
        assert "cannot read" in said.err


def test_keys_lists_every_key_with_its_default() -> None:
    said = typed("config", "keys")

    assert said.status == 0
    assert ["broker.keepalive", '"30s"', "MQTT", "keepalive."] in [
        line.split() for line in said.out.splitlines()
    ]
    facts = json.loads(typed("config", "keys", "--json").out)["keys"]["broker.port"]
    assert facts == {
        "type": "whole number",
        "required": False,
        "default": "1883",
        "allowed": "1 to 65535",
        "at_reload": "restart",
        "example": "port = 1883",
        "variable": "EDGEAGENT_BROKER_PORT",
        "meaning": "TCP port.",
    }


@pytest.mark.requirement("A2")
def test_show_tells_what_is_in_force_and_where_each_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'{HUB}[broker]\nport = 1884\npassword_file = "password"\n', "utf-8")
    (tmp_path / "password").write_text("hunter2")
    monkeypatch.setenv("EDGEAGENT_LOG_LEVEL", "debug")

    plain = typed("--config", str(path), "config", "show")
    said = typed("--config", str(path), "config", "show", "--origin")
    told = json.loads(typed("--config", str(path), "config", "show", "--json").out)["keys"]

    rows = [line.split() for line in said.out.splitlines()]
    assert ["hub.id", "venue-7", f"{path}:2"] in rows
    assert ["broker.port", "1884", f"{path}:4"] in rows
    assert ["broker.host", "127.0.0.1", "default"] in rows
    assert ["log.level", "debug", "$EDGEAGENT_LOG_LEVEL"] in rows
    assert ["cloud.url", "-", "default"] in rows
    assert told["broker.port"] == {"value": 1884, "origin": f"{path}:4", "at_reload": "restart"}
    assert ["broker.port", "1884"] in [line.split() for line in plain.out.splitlines()]
    assert "hunter2" not in said.out + str(told)


@pytest.mark.threat("T54")
@pytest.mark.requirement("W3")
def test_all_that_the_file_names_and_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    for name in ("token", "ca.pem"):
        (tmp_path / name).write_text("a-token-of-a-hub-0123456789")
    (tmp_path / "token").chmod(0o644)
    (tmp_path / "ca.pem").chmod(0o666)

    said = checked(
        tmp_path,
        '[hub]\nid = "venue-7"\nview_group = "nobody-has-this"\n[worker]\nuser = "nor-this"\n'
        '[broker.tls]\nca_file = "none.pem"\n'
        '[cloud]\nurl = "https://queue.example.org"\ntoken_file = "token"\nca_file = "ca.pem"\n',
    )

    assert said.status == 78
    assert "others may use the secret" in said.err
    assert "broker.tls.ca_file: cannot read" in said.err
    assert "cloud.ca_file: anybody may change" in said.err
    assert "there is no group nobody-has-this" in said.err
    assert "there is no user nor-this" in said.err
    assert "a-token-of" not in said.err


def test_the_environment_says_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub.toml").write_text(HUB, "utf-8")
    monkeypatch.setenv("EDGEAGENT_CONFIG", str(tmp_path / "hub.toml"))

    assert typed("config", "check").status == 0


@pytest.mark.parametrize("words", [[], ["paint"], ["--colour", "health"], ["config"]])
def test_wrong_words_end_with_2(words: list[str]) -> None:
    said = typed(*words)

    assert (said.status, said.out) == (2, "")
    assert "usage: edgeagent" in said.err


def test_help_is_no_failure() -> None:
    assert typed("--help").status == 0


def test_run_with_a_wrong_file_ends_with_78_and_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(HUB + "[broker]\nport = 0\n", "utf-8")

    said = typed("--config", str(tmp_path / "config.toml"), "run")

    assert said.status == 78
    assert [file.name for file in tmp_path.iterdir()] == ["config.toml"]


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    """``edgeagent config keys | head -1``."""
    gone, ours = os.pipe()
    os.close(gone)

    done = subprocess.run(
        [sys.executable, "-m", "edgeagent", "config", "keys"],
        stdout=ours,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(ours)

    assert done.stderr == ""
    assert done.returncode == 141
