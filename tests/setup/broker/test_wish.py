"""What ``[broker.managed]`` asks for, and what it cannot ask for (SPEC H4, H5)."""

from pathlib import Path

import pytest

from edgeagent import config as configurations
from edgeagent.errors import ConfigurationError
from edgeagent.setup.broker.wish import AGENT_LOGIN, AGENT_PORT, Wish, config_lines, wish
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("H4", "H5")

BROKER = '[broker]\nport = 1884\nusername = "edgeagent"\npassword_file = "broker-password"\n'


def written(folder: Path, text: str) -> Path:
    """A hub's configuration."""
    path = folder / "config.toml"
    path.write_text(f'[hub]\nid = "venue-7"\n{text}')
    return path


def wished(path: Path) -> Wish:
    """What it asks for."""
    found = wish(configurations.load(path), path)
    assert found is not None
    return found


def test_the_lines_that_a_set_up_writes_ask_for_it(tmp_path: Path) -> None:
    asked = wished(written(tmp_path, config_lines()))

    assert (asked.agent, asked.agent_port) == (AGENT_LOGIN, AGENT_PORT)
    assert (asked.host, asked.port, asked.certificate) == ("0.0.0.0", 1883, None)  # noqa: S104 - as it is written
    assert asked.password_file == tmp_path / "broker-password"
    assert not (tmp_path / "broker-password").exists()


def test_without_the_section_the_agent_is_a_guest(tmp_path: Path) -> None:
    path = written(tmp_path, BROKER)

    assert wish(configurations.load(path), path) is None


def test_its_password_lies_where_systemd_lends_it_from_or_beside_the_configuration(tmp_path: Path) -> None:
    path = written(tmp_path, config_lines())
    (tmp_path / "credentials").mkdir()
    new = wished(path)
    lent = tmp_path / "credentials" / "broker-password"
    write_private(lent, "kept\n")
    kept = wished(path)
    lent.chmod(0o644)

    assert (new.password_file, kept.password_file, kept.password) == (lent, None, "kept")
    with pytest.raises(ConfigurationError, match="chmod 600"):
        wished(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BROKER + '[broker.managed]\nlisten = "999.1.1.1:1883"\n', "999.1.1.1"),
        (BROKER + '[broker.managed]\nlisten = "0.0.0.0:99999"\n', "a port is at most 65535"),
        (BROKER + '[broker.managed]\nlisten = "0.0.0.0:1884"\n', "not the port by which the agent comes"),
        (BROKER + '[broker.managed]\nlisten = "hub.lan:1883"\n', "listen"),
        (BROKER + '[broker.managed]\ncert_file = "/a.pem"\n', "cert_file and key_file go together"),
        ("[broker]\nport = 1884\n[broker.managed]\n", "needs a username and a password_file"),
        (BROKER + 'host = "192.168.1.2"\n[broker.managed]\n', "comes by 127.0.0.1"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        configurations.load(written(tmp_path, text))
