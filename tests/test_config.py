"""One TOML file: every mistake at once with its line, defaults for the rest, secrets elsewhere (SPEC H4)."""

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.config import Config, load
from edgeagent.config_keys import all_keys
from edgeagent.errors import ConfigurationError
from edgeagent.secret_files import read_secret, secret_path

pytestmark = pytest.mark.requirement("H4")

SIGNER = "ab" * 32
ALONE = {
    *("policy.file", "policy.signer", "policy.source", "policy.root", "policy.refresh", "policy.ca_file"),
    *("broker.tls.cert_file", "broker.tls.key_file", "firmware.public"),
    *("broker.managed.cert_file", "broker.managed.key_file"),
}
"""Keys that go with another."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def written(path: Path, text: str) -> Config:
    """What a file with this text comes to."""
    path.write_text(text, "utf-8")
    return load(path)


def mistakes(path: Path, text: str) -> list[str]:
    """What is wrong with a file of this text, without the file's name."""
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_a_hub_needs_a_name_and_nothing_else(path: Path) -> None:
    config = written(path, '[hub]\nid = "venue-7"\n')

    assert config.hub.id == "venue-7"
    assert config.broker.host == "127.0.0.1"
    assert config.cloud is None
    assert config.policy is None
    assert config.ingest.commit_linger == timedelta(milliseconds=100)
    assert config.database == Path("/var/lib/edgeagent/hub.db")
    assert config.admin_socket == Path("/run/edgeagent/admin.sock")


def test_every_key_can_be_set(path: Path) -> None:
    config = written(
        path,
        f"""
[hub]
id = "venue-7"
state_dir = "/srv/state"
run_dir = "/srv/run"
[broker]
host = "broker.lan"
port = 8883
username = "agent"
password_file = "broker-password"
keepalive = "15s"
session_expiry = "2d"
[broker.tls]
ca_file = "ca.pem"
[cloud]
url = "https://queue.example.org/"
token_file = "token"
proxy = "http://proxy.lan:3128"
[policy]
file = "policy.json"
signer = "{SIGNER}"
[ingest]
commit_linger = "20ms"
[uplink]
linger = "5s"
most_events = 100
longest_backoff = "5m"
[web]
listen = "[::1]:9000"
[profiles]
directory = "profiles"
[log]
level = "debug"
""",
    )

    assert config.cloud is not None
    assert config.cloud.url == "https://queue.example.org"
    assert config.broker.tls is not None
    assert config.uplink.longest_backoff == timedelta(minutes=5)


def test_all_mistakes_are_told_at_once_each_with_its_line(path: Path) -> None:
    found = mistakes(
        path,
        """[hub]
id = "venue 7"
state_dir = 5

[broker]
port = 70000
keepalive = "soon"
hots = "10.0.0.1"

[cloud]
url = "queue.example.org"
[uplink]
most_events = 0
[web]
listen = "0.0.0.0:80"
[log]
level = "loud"
[trace]
[colour]
""",
    )

    assert [" ".join(line.split(": ")[:2]) for line in found] == [
        "2 hub.id",
        "3 hub.state_dir",
        "6 broker.port",
        "7 broker.keepalive",
        "8 broker.hots",
        "11 cloud.url",
        "13 uplink.most_events",
        "15 web.listen",
        "17 log.level",
        "18 trace.otlp_endpoint",
        "19 colour",
    ]
    assert "8: broker.hots: there is no such key; did you mean host?" in found
    assert any(line.startswith("18: trace.otlp_endpoint: is missing, like otlp_endpoint =") for line in found)
    assert any("like 500ms, 30s, 5m" in line for line in found)
    assert any("like https://queue.example.org" in line for line in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('hub.id = "venue-7"\nbroker.port = 0\n', "2: broker.port", id="dotted keys"),
        pytest.param(
            'hub = { id = "venue-7" }\nbroker = { port = 0 }\n', "2:12: broker.port", id="inline tables"
        ),
        pytest.param('[ hub ]\nid = "venue-7"\n[broker . tls]\nca = 1\n', "4: broker.tls.ca", id="spaces"),
        pytest.param('[hub]\n# id = "x"\n\n', "1: hub.id", id="a key in a comment"),
        pytest.param("", "1: hub", id="an empty file"),
    ],
)
def test_the_line_is_found_however_the_file_is_written(path: Path, text: str, line: str) -> None:
    [found] = mistakes(path, text)

    assert found.startswith(line)


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        pytest.param(b"[hub\n", "not TOML", id="no TOML"),
        pytest.param(b'[hub]\nid = "a"\nid = "b"\n', "not TOML", id="one key twice"),
        pytest.param(b'[hub]\nid = "\xff"\n', "not TOML", id="no UTF-8"),
        pytest.param(b"x = " + b"[" * 100_000, "not TOML", id="too deep"),
        pytest.param(b"#" * 10_000_000, "larger than", id="too large"),
        pytest.param(b'\xef\xbb\xbf[hub]\nid = "a"\n', ":1: .*byte order mark", id="a byte order mark"),
        pytest.param('[hub]\nid = "a"\n'.encode("utf-16"), ":1: .*UTF-16", id="UTF-16"),
        pytest.param(b'[hub]\nid = "a\x00"\n', ":2: .*NUL", id="a NUL"),
        pytest.param(b'[hub]\nid = "\xfc"\n', ":2: .*save it as UTF-8", id="Latin-1"),
        pytest.param(b'[hub]\nid = "a"\n[web]\n[hub]\n', ":4:.*a second time", id="one section twice"),
        pytest.param(b"[hub]\nid = a\n", ":2:.*stand in quotes", id="no quotes"),
        pytest.param(b'[hub]\nid = "a', ":2: not TOML", id="cut off"),
        pytest.param(b"[hub]\nid = 1" + b"0" * 5000, "not TOML|hub.id", id="a number without end"),
        pytest.param(bytes(4096), ":1: .*NUL", id="zeros"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_name(path: Path, raw: bytes, word: str) -> None:
    path.write_bytes(raw)

    with pytest.raises(ConfigurationError, match=word) as caught:
        load(path)

    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        load(path)


def test_a_fifo_holds_up_nobody(path: Path) -> None:
    os.mkfifo(path)

    with pytest.raises(ConfigurationError, match="is no file"):
        load(path)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("[broker]\nhots = 1", "8: broker.hots: there is no such key; did you mean host?"),
        (
            '[broker]\ntoken_file = "t"',
            "8: broker.token_file: there is no such key; token_file stands in [cloud]",
        ),
        ("[brokr]\nport = 1", "7: brokr: there is no such key; did you mean broker?"),
        ("[xyzzy]", "7: xyzzy: there is no such key"),
        ("[broker]\nport = 1.5", "8: broker.port: has to be a whole number without quotes, like port = 1883"),
        (
            '[broker]\nport = "1883"',
            "8: broker.port: has to be a whole number without quotes, like port = 1883",
        ),
        (
            "[broker]\nport = true",
            "8: broker.port: has to be a whole number without quotes, like port = 1883",
        ),
        ("[broker]\nhost = 5", '8: broker.host: has to be text in quotes, like host = "127.0.0.1"'),
        (
            '[broker]\nhost = "hub\\u0000.lan"',
            '8: broker.host: no name or address of a host, like host = "127.0.0.1"',
        ),
        *(
            (
                f'[broker.tls]\nserver_name = "{name}"',
                (
                    "8: broker.tls.server_name: no name or address of a host: a part between dots is empty "
                    'or too long, like server_name = "broker.example.org"'
                ),
            )
            for name in ("hub..lan", ".hub.lan", "h" * 64)
        ),
        ("[broker]\ntls = 5", "8: broker.tls: has to be a section: [broker.tls]"),
        ("[[broker]]\nport = 1", "7: broker: has to be a section: [broker]"),
        ("[web]\nlisten = 5", '8: web.listen: has to be text in quotes, like listen = "127.0.0.1:9464"'),
        (
            '[web]\nlisten = "80"',
            '8: web.listen: is not written as it has to be, like listen = "127.0.0.1:9464"',
        ),
        (
            '[web]\nlisten = "127.0.0.256:80"',
            '8: web.listen: not an address of this machine, like listen = "127.0.0.1:9464"',
        ),
        (
            '[web]\nlisten = "127.0.0.1:99999"',
            '8: web.listen: a port is at most 65535, like listen = "127.0.0.1:9464"',
        ),
        (
            '[broker]\npassword_file = "a\\u0000"',
            '8: broker.password_file: has to name a file, like password_file = "broker-password"',
        ),
        (
            '[uplink]\nlongest_backoff = "0s"',
            (
                "8: uplink.longest_backoff: should be greater than or equal to 1 second, "
                'like longest_backoff = "1m"'
            ),
        ),
        (
            '[ingest]\ncommit_linger = "2m"',
            (
                "8: ingest.commit_linger: should be less than or equal to 1 minute, "
                'like commit_linger = "100ms"'
            ),
        ),
    ],
)
def test_each_mistake_says_what_would_be_right(path: Path, lines: str, words: str) -> None:
    """Tabs, blanks and the ends of lines of other systems move no line."""
    found = mistakes(path, f'\t# one\r\n\r\n[hub]\r\n\tid\t=\t"venue-7"\r\nrun_dir = """\n/run"""\n{lines}\n')

    assert found == [words]


def test_a_variable_of_the_environment_goes_before_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEAGENT_LOG_LEVEL", "debug")
    monkeypatch.setenv("EDGEAGENT_BROKER_PORT", "1884")
    monkeypatch.setenv("EDGEAGENT_BROKER_TLS_CA_FILE", "ca.pem")

    config = written(path, '[hub]\nid = "venue-7"\n[log]\nlevel = "error"\n')

    assert (config.log.level, config.broker.port) == ("debug", 1884)
    assert config.broker.tls is not None
    assert config.broker.tls.ca_file == Path("ca.pem")


def test_a_variable_with_a_mistake_is_told_by_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEAGENT_BROKER_PORT", "many")

    [found] = mistakes(path, '[hub]\nid = "venue-7"\n[broker]\nport = 1\n')

    assert found.startswith("$EDGEAGENT_BROKER_PORT: broker.port: has to be a whole number")
    monkeypatch.setenv("EDGEAGENT_BROKER_PRT", "1")
    assert mistakes(path, '[hub]\nid = "venue-7"\n') == ["$EDGEAGENT_BROKER_PRT: there is no such key"]


def test_a_certificate_and_its_key_go_together(path: Path) -> None:
    [found] = mistakes(path, '[hub]\nid = "venue-7"\n[broker.tls]\ncert_file = "hub.pem"\n')

    assert "cert_file and key_file go together" in found


@pytest.mark.requirement("A2")
def test_a_secret_that_stands_in_the_file_by_mistake_is_not_repeated(path: Path) -> None:
    found = mistakes(
        path,
        '[hub]\nid = "venue-7"\n[broker]\npassword = "hunter2"\n[cloud]\nurl = "https://me:hunter2@queue"\n'
        'token = "hunter2"\ntoken_file = 7\n',
    )

    assert len(found) == 4
    assert "hunter2" not in "\n".join(found)


def test_each_key_has_a_sentence_and_an_example_that_is_taken(path: Path) -> None:
    keys = all_keys(Config)
    needed = {"cloud": 'url = "https://queue.example.org"\ntoken_file = "t"\n', "hub": 'id = "venue-7"\n'}

    assert (keys[0].name, keys[0].is_required) == ("hub.id", True)
    assert all(key.meaning.endswith(".") for key in keys)
    assert len({key.name for key in keys}) == len(keys) == len({key.variable for key in keys})
    for key in keys:
        section, _, name = key.name.rpartition(".")
        fields = {section: needed.get(section, ""), "hub": needed["hub"]}
        if section == "broker.managed":
            fields["broker"] = 'port = 1884\nusername = "edgeagent"\npassword_file = "broker-password"\n'
        fields[section] = "".join(
            line for line in fields[section].splitlines(keepends=True) if line.split(" ")[0] != name
        )
        text = "".join(f"[{title}]\n{lines}" for title, lines in fields.items())
        text = text.replace(f"[{section}]\n", f"[{section}]\n{key.line}\n")
        if key.name in ALONE:
            assert all(f" {key.name}: " not in mistake for mistake in mistakes(path, text))
        else:
            written(path, text)


@pytest.mark.requirement("W3", "A2")
class TestSecrets:
    """They lie in files that nobody else may read."""

    def test_one_lies_beside_the_configuration(self, path: Path) -> None:
        secret(path.parent / "token", "hunter2\n")

        assert read_secret(path, Path("token")) == "hunter2"

    def test_one_of_systemds_credentials_goes_before_it(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credentials = tmp_path / "credentials"
        credentials.mkdir()
        secret(path.parent / "token", "beside")
        secret(credentials / "token", "credential")
        secret(path.parent / "other", "beside")
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))

        assert read_secret(path, Path("token")) == "credential"
        assert read_secret(path, Path("other")) == "beside"
        assert read_secret(path, path.parent / "token") == "beside"

    def test_what_the_unit_lends_goes_before_all_else(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a folder systemd lends each file under a name that begins with the folder's."""
        lent = tmp_path / "lent"
        lent.mkdir()
        secret(lent / "edgeagent_token", "lent")
        secret(lent / "token", "credential")
        secret(lent / "edgeagent_cloud_token", "lent from a folder inside")
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(lent))

        assert read_secret(path, Path("token")) == "lent"
        assert read_secret(path, Path("cloud/token")) == "lent from a folder inside"

    def test_without_a_unit_the_folder_that_it_lends_is_looked_into(self, path: Path) -> None:
        """As root does, who asks whether the configuration is right."""
        folder = path.parent / "credentials"
        folder.mkdir()
        secret(path.parent / "token", "beside")
        secret(folder / "token", "in the folder")

        assert read_secret(path, Path("token")) == "in the folder"
        with pytest.raises(ConfigurationError, match=f"install -m 600 FILE {folder}/other"):
            read_secret(path, Path("other"))

    def test_a_name_that_leads_out_of_a_folder_is_taken_as_it_is_written(self, path: Path) -> None:
        """Whoever writes the configuration may read what the agent may: there is nothing to protect."""
        assert secret_path(path, Path("../elsewhere")) == path.parent / "../elsewhere"

    @pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620, 0o610, 0o644, 0o777])
    def test_one_that_others_may_use_is_refused(self, path: Path, mode: int) -> None:
        secret(path.parent / "token", "hunter2", mode)

        with pytest.raises(ConfigurationError, match="chmod 600") as caught:
            read_secret(path, Path("token"))

        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
    def test_one_that_the_group_may_read_is_taken(self, path: Path, mode: int) -> None:
        secret(path.parent / "token", "hunter2", mode)

        assert read_secret(path, Path("token")) == "hunter2"

    @pytest.mark.parametrize(
        ("content", "word"),
        [
            pytest.param(b"", "empty", id="empty"),
            pytest.param(b" \n\t\n", "empty", id="blank"),
            pytest.param(b"\xff\xfe", "not text", id="no text"),
            pytest.param(b"x" * 70_000, "larger than", id="too large"),
        ],
    )
    def test_one_that_is_none_is_refused(self, path: Path, content: bytes, word: str) -> None:
        file = path.parent / "token"
        file.write_bytes(content)
        file.chmod(0o600)

        with pytest.raises(ConfigurationError, match=word):
            read_secret(path, Path("token"))

    def test_one_that_is_missing_is_named(self, path: Path) -> None:
        with pytest.raises(ConfigurationError, match="token"):
            read_secret(path, Path("token"))

    def test_a_fifo_is_no_secret_and_holds_up_nobody(self, path: Path) -> None:
        os.mkfifo(path.parent / "token", 0o600)

        with pytest.raises(ConfigurationError, match="is no file"):
            read_secret(path, Path("token"))

    def test_a_folder_is_no_secret(self, path: Path) -> None:
        (path.parent / "token").mkdir()

        with pytest.raises(ConfigurationError, match="cannot read"):
            read_secret(path, Path("token"))


def secret(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that only its owner may read."""
    path.write_text(text, "utf-8")
    path.chmod(mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.requirement("A3")
def test_the_record_is_kept_for_a_quarter_at_least(path: Path) -> None:
    path.write_text('[hub]\nid = "venue-7"\n[audit]\nkeep = "89d"\n', "utf-8")

    with pytest.raises(ConfigurationError, match=r"audit\.keep"):
        load(path)


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ('listen = "0.0.0.0:0"', "public has to say"),
        ('listen = "[::]:0"', "public has to say"),
        ('listen = "999.1.1.1:0"', "not an address"),
        ('listen = "192.168.1.10:70000"', "a port is"),
        ('listen = "hub.lan:80"', "listen"),
        ('listen = "192.168.1.10:0"\npublic = "a b"', "public"),
    ],
)
def test_devices_have_to_be_able_to_call_the_hub(path: Path, lines: str, word: str) -> None:
    found = mistakes(path, f'[hub]\nid = "venue-7"\n[firmware]\n{lines}\n')

    assert word in "\n".join(found)
