"""From the configuration to what each room is told: secrets, the policy's file, profiles."""

import grp
from datetime import timedelta
from pathlib import Path
from secrets import token_hex

import pytest

from edgeagent import settings
from edgeagent.config import Config, load
from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.errors import ConfigurationError
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("H4")

HUB = '[hub]\nid = "venue-7"\n'
TOKEN = token_hex(16)
PROFILE = """
format = 1
id = "bell"
version = "1.0.0"
title = "A bell"
transport = "hub"

[reading.rings]
kind = "integer"
from = [{ topic = "{device}/rings" }]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def configured(path: Path, text: str) -> Config:
    """A configuration of this text."""
    path.write_text(HUB + text, "utf-8")
    return load(path)


class TestWhoMayComeIn:
    """Groups of this machine, by name."""

    def test_without_a_word_there_is_no_group(self, path: Path) -> None:
        assert settings.access(configured(path, "")).groups == []

    def test_a_group_is_known_by_its_number(self, path: Path) -> None:
        access = settings.access(configured(path, 'view_group = "root"\noperate_group = "daemon"\n'))

        assert (access.view, access.operate) == (0, grp.getgrnam("daemon").gr_gid)

    @pytest.mark.parametrize("key", ["view_group", "operate_group"])
    def test_one_that_is_not_there_is_told_before_anything_starts(self, path: Path, key: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{key}: there is no group no-such-group"):
            settings.access(configured(path, f'{key} = "no-such-group"\n'))

    @pytest.mark.parametrize("name", ["", "a b", "-x", "Ädmin", "x" * 40])
    def test_what_is_no_groups_name_is_refused(self, path: Path, name: str) -> None:
        with pytest.raises(ConfigurationError, match="view_group"):
            configured(path, f'view_group = "{name}"\n')


class TestTheBroker:
    """Where it is, who we are, how it is recognised."""

    def test_by_default_it_is_on_this_machine_without_a_login(self, path: Path) -> None:
        mqtt = settings.mqtt_settings(configured(path, ""), path)

        assert (mqtt.host, mqtt.port, mqtt.username, mqtt.password, mqtt.tls) == (
            "127.0.0.1",
            1883,
            None,
            None,
            None,
        )

    @pytest.mark.requirement("A2")
    def test_a_password_comes_from_its_file_and_is_not_shown(self, path: Path) -> None:
        write_private(path.parent / "broker", "hunter2\n")
        config = configured(path, '[broker]\nusername = "agent"\npassword_file = "broker"\n')

        mqtt = settings.mqtt_settings(config, path)

        assert mqtt.password is not None
        assert mqtt.password.get_secret_value() == b"hunter2"
        assert "hunter2" not in repr(mqtt)

    def test_files_of_tls_lie_beside_the_configuration(self, path: Path) -> None:
        (path.parent / "ca.pem").touch()
        config = configured(path, '[broker.tls]\nca_file = "ca.pem"\nserver_name = "broker.lan"\n')

        tls = settings.mqtt_settings(config, path).tls

        assert tls is not None
        assert (tls.ca, tls.server_name, tls.certificate) == (path.parent / "ca.pem", "broker.lan", None)

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            pytest.param('password_file = "none"', "none", id="its password's file is missing"),
            pytest.param('keepalive = "0s"', "keepalive", id="a keepalive that MQTT has not"),
            pytest.param('keepalive = "20h"', "keepalive", id="a keepalive beyond 16 bits"),
            pytest.param('session_expiry = "0s"', "session_expiry", id="sessions that end at once"),
        ],
    )
    def test_what_cannot_be_is_told_before_anything_starts(self, path: Path, text: str, word: str) -> None:
        config = configured(path, f"[broker]\n{text}\n")

        with pytest.raises(ConfigurationError, match=word):
            settings.mqtt_settings(config, path)


class TestTheCloud:
    """Where it is and with which token."""

    def test_without_one_there_is_none(self, path: Path) -> None:
        assert settings.cloud_settings(configured(path, ""), path) is None

    @pytest.mark.requirement("A2", "W3")
    def test_the_token_comes_from_its_file_and_is_not_shown(self, path: Path) -> None:
        write_private(path.parent / "token", TOKEN)
        config = configured(path, '[cloud]\nurl = "https://queue.example.org"\ntoken_file = "token"\n')

        cloud = settings.cloud_settings(config, path)

        assert cloud is not None
        assert cloud.token is not None
        assert cloud.token.header() == f"Bearer {TOKEN}"
        assert TOKEN not in repr(cloud)

    @pytest.mark.parametrize(
        ("url", "token", "word"),
        [
            pytest.param("http://queue.example.org", TOKEN, "use https", id="over the network in clear"),
            pytest.param("https://queue.example.org", "short", "a token is", id="no token"),
            pytest.param("https://queue.example.org", "two\nlines-0123456789", "a token is", id="two lines"),
        ],
    )
    def test_what_would_show_or_break_the_login_is_refused(
        self, path: Path, url: str, token: str, word: str
    ) -> None:
        write_private(path.parent / "token", token)
        config = configured(path, f'[cloud]\nurl = "{url}"\ntoken_file = "token"\n')

        with pytest.raises(ConfigurationError, match=word) as caught:
            settings.cloud_settings(config, path)

        assert token not in str(caught.value)

    def test_to_this_very_machine_it_may_go_in_clear(self, path: Path) -> None:
        write_private(path.parent / "token", TOKEN)
        config = configured(path, '[cloud]\nurl = "http://127.0.0.1:8443"\ntoken_file = "token"\n')

        assert settings.cloud_settings(config, path) is not None


class TestThePolicysFile:
    """One that cannot be read is no reason not to start: the stored policy is in force."""

    TEXT = f'[policy]\nfile = "policy.json"\nsigner = "{"ab" * 32}"\n'

    def test_it_is_read_as_it_is(self, path: Path) -> None:
        (path.parent / "policy.json").write_bytes(b"whatever")

        assert settings.offered_policy(configured(path, self.TEXT), path) == b"whatever"

    def test_a_huge_one_is_not_read_whole(self, path: Path) -> None:
        (path.parent / "policy.json").write_bytes(bytes(POLICY_BYTES * 3))

        offered = settings.offered_policy(configured(path, self.TEXT), path)

        assert offered is not None
        assert len(offered) == POLICY_BYTES + 1

    def test_a_missing_one_is_none(self, path: Path) -> None:
        assert settings.offered_policy(configured(path, self.TEXT), path) is None

    def test_where_none_is_configured_there_is_none_and_nobody_is_trusted(self, path: Path) -> None:
        config = configured(path, "")

        assert settings.offered_policy(config, path) is None
        assert settings.trust_settings(config).signer is None

    def test_its_signer_is_the_key_of_the_configuration(self, path: Path) -> None:
        assert settings.trust_settings(configured(path, self.TEXT)).signer == bytes.fromhex("ab" * 32)


class TestProfiles:
    """The shipped families, and an operator's own."""

    def test_the_shipped_ones_are_always_there(self, path: Path) -> None:
        assert {"tasmota", "shelly-gen2"} <= settings.profiles(configured(path, ""), path).keys()

    def test_an_operators_own_are_added(self, path: Path) -> None:
        own(path, bell=PROFILE)

        assert "bell" in settings.profiles(configured(path, '[profiles]\ndirectory = "own"\n'), path)

    @pytest.mark.parametrize(
        ("files", "word"),
        [
            pytest.param({"bell": PROFILE, "again": PROFILE}, "already", id="one id twice"),
            pytest.param(
                {"bell": PROFILE.replace('"bell"', '"tasmota"')}, "already", id="a shipped one's id"
            ),
            pytest.param({"bell": PROFILE.replace("integer", "weight")}, "bell.toml", id="a mistake"),
            pytest.param({"bell": "["}, "bell.toml", id="no TOML"),
            pytest.param({"bell": PROFILE + "#" * 70_000}, "bell.toml", id="too large"),
        ],
    )
    def test_one_that_is_wrong_is_named(self, path: Path, files: dict[str, str], word: str) -> None:
        own(path, **files)

        with pytest.raises(ConfigurationError, match=word):
            settings.profiles(configured(path, '[profiles]\ndirectory = "own"\n'), path)

    def test_a_folder_that_is_missing_is_told(self, path: Path) -> None:
        with pytest.raises(ConfigurationError, match="own"):
            settings.profiles(configured(path, '[profiles]\ndirectory = "own"\n'), path)

    @pytest.mark.requirement("R7")
    def test_there_is_a_bound_to_their_number(self, path: Path) -> None:
        own(
            path, **{f"bell-{number}": PROFILE.replace('"bell"', f'"bell-{number}"') for number in range(300)}
        )

        with pytest.raises(ConfigurationError, match="at most"):
            settings.profiles(configured(path, '[profiles]\ndirectory = "own"\n'), path)


def test_times_and_sizes_are_handed_on(path: Path) -> None:
    config = configured(
        path,
        """
[ingest]
commit_linger = "20ms"
[uplink]
linger = "5s"
most_events = 7
longest_backoff = "5m"
""",
    )

    uplink = settings.uplink_settings(config)

    assert settings.ingest_settings(config).commit_linger == timedelta(milliseconds=20)
    assert (uplink.linger, uplink.most_events, uplink.backoff.longest) == (
        timedelta(seconds=5),
        7,
        timedelta(minutes=5),
    )


def own(path: Path, **files: str) -> None:
    """Write profiles of an operator."""
    folder = path.parent / "own"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text, "utf-8")
