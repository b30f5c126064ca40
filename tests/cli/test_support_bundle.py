"""``edgeagent support-bundle``: listed before it is written, whole, for its owner alone, without a secret."""

import json
import secrets
import tarfile
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from edgeagent import config as configuration
from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.core.redacting import GONE, Redactor
from edgeagent.errors import RejectedError, StorageError
from edgeagent.support.archive import Heading, manifest, packed, write
from edgeagent.support.known_secrets import known_secrets
from edgeagent.support.parts import PART_BYTES, Gathered, Missing, Part, Source, gather
from tests.cli.building import Said, lonely_terminal, terminal, typed
from tests.support.certificates import Authority
from tests.support.clocks import NOON
from tests.support.stores import opened

pytestmark = pytest.mark.requirement("O5", "A2")

HEADING: Final = Heading(
    hub="venue-7", version="1.0", at=datetime(2026, 11, 30, tzinfo=UTC), has_labels=False
)


def bundle(file: Path) -> dict[str, str]:
    """What is in a bundle, by name, once its manifest was held against it."""
    with tarfile.open(file) as tar:
        members = tar.getmembers()
        assert {(each.uid, each.gid, each.mode, each.isfile()) for each in members} == {(0, 0, 0o600, True)}
        read = {each.name.partition("/")[2]: tar.extractfile(each) for each in members}
        found = {name: opened_.read() for name, opened_ in read.items() if opened_ is not None}
    told = json.loads(found["manifest.json"])
    assert list(found) == ["manifest.json", *(part["name"] for part in told["parts"])]
    assert {part["name"]: part["sha256"] for part in told["parts"]} == {
        name: sha256(content).hexdigest() for name, content in found.items() if name != "manifest.json"
    }
    return {name: content.decode() for name, content in found.items()}


def names_in(folder: Path) -> list[str]:
    """What is there."""
    return sorted(path.name for path in folder.iterdir())


def missing(found: dict[str, str]) -> dict[str, str]:
    """What could not be had, and why."""
    return {each["name"]: each["why"] for each in json.loads(found["manifest.json"])["missing"]}


class TestWithAnAgent:
    """It is asked."""

    async def test_it_holds_what_helps_and_no_value_or_name(self, tmp_path: Path) -> None:
        file = tmp_path / "bundle.tar.gz"
        async with terminal(tmp_path, "dev-1") as typing:
            typing.desk.hub.bus.delivers("dev-1/state", b'{"power": true, "position": 4711}')
            await typing.desk.hub.takes_in()

            said = await typing.types("support-bundle", "--yes", "--out", str(file))

        found = bundle(file)
        assert (said.status, said.out) == (0, f"{file}\n")
        assert file.stat().st_mode & 0o777 == 0o600
        assert {"health.json", "status.json", "config.json", "devices.json", "store.json"} <= set(found)
        assert {"audit.jsonl", "metrics.txt", "versions.json", "machine.json"} <= set(found)
        [device] = json.loads(found["devices.json"])["devices"]
        assert (device["device"], device["readings"] >= 1) == ("dev-1", True)
        assert json.loads(found["store.json"])["tables"]["devices"] == 1
        key = json.loads(found["config.json"])["keys"]["hub.id"]
        assert (key["value"], key["origin"]) == ("venue-7", f"{tmp_path / 'config.toml'}:2")
        assert "edgeagent_devices" in found["metrics.txt"]
        rows = [json.loads(line) for line in found["audit.jsonl"].splitlines()]
        assert {row["kind"] for row in rows} >= {"policy_accepted"}
        assert all("detail" not in row for row in rows)
        everything = "".join(found.values())
        assert "4711" not in everything
        assert "The dev-1" not in everything

    async def test_names_are_in_it_if_that_is_wanted(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            await typing.types("support-bundle", "--yes", "--with-labels", "--out", str(tmp_path / "b"))

        found = bundle(tmp_path / "b")
        assert json.loads(found["devices.json"])["devices"][0]["label"] == "The dev-1"
        assert "people's names for devices" not in json.loads(found["manifest.json"])["left_out"]

    async def test_it_is_listed_first_and_nobody_to_ask_is_a_no(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        async with terminal(tmp_path, "dev-1") as typing:
            before = names_in(tmp_path)
            said = await typing.types("support-bundle")

            assert said.status == 1
            assert "next: add --yes" in said.err
            assert names_in(tmp_path) == before
        listed = said.err.splitlines()
        assert "for its owner alone, would hold:" in listed[0]
        assert any(line.strip().startswith("health.json") for line in listed)
        assert any(line.startswith("In none of it: values of readings") for line in listed)

    async def test_as_json_it_is_the_manifest(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with terminal(tmp_path) as typing:
            said = await typing.types("--json", "support-bundle", "--yes")

        told = json.loads(said.out)
        assert (said.status, said.err) == (0, "")
        assert told["file"].startswith("edgeagent-support-venue-7-")
        assert json.loads(bundle(tmp_path / told["file"])["manifest.json"]).items() <= told.items()


class TestWithoutAnAgent:
    """What can be had is had, the rest is told."""

    async def test_the_database_is_read_where_we_may(self, tmp_path: Path) -> None:
        (tmp_path / "state").mkdir()
        async with opened(tmp_path / "state" / "hub.db"):
            pass
        async with lonely_terminal(tmp_path) as lonely:
            said = await lonely.types("support-bundle", "--yes", "--out", str(tmp_path / "b"))

        found = bundle(tmp_path / "b")
        assert said.status == 0
        assert json.loads(found["store.json"])["tables"]["devices"] == 0
        assert "hub.db" in found["state.json"]
        assert json.loads(found["health.json"])["checks"][0]["name"] == "agent"
        assert "no agent answers" in missing(found)["status.json"]

    async def test_a_hub_of_which_nothing_is_there(self, tmp_path: Path) -> None:
        async with lonely_terminal(tmp_path) as lonely:
            said = await lonely.types("support-bundle", "--yes", "--out", str(tmp_path / "b"))

        found = bundle(tmp_path / "b")
        assert said.status == 0
        assert {"status.json", "devices.json", "store.json", "audit.jsonl", "state.json"} <= set(
            missing(found)
        )
        assert not (tmp_path / "state").exists()

    @pytest.mark.parametrize("text", ["", "[hub]\nid = 7\n", "[hub"])
    def test_a_configuration_that_is_wrong_is_told_in_it(self, tmp_path: Path, text: str) -> None:
        config = tmp_path / "config.toml"
        config.write_text(text, "utf-8")

        said = typed("--config", str(config), "support-bundle", "--yes", "--out", str(tmp_path / "b"))

        found = bundle(tmp_path / "b")
        assert said.status == 0
        assert "config.toml" in json.loads(found["config.json"])["problem"]
        assert "machine.json" in found
        first, *others = json.loads(found["health.json"])["checks"]
        assert (first["name"], first["level"]) == ("configuration", "critical")
        assert "edgeagent config check" in first["advice"]
        assert "the configuration cannot be read" not in str([first, *others])

    @pytest.mark.threat("T46")
    def test_secrets_are_known_although_the_configuration_is_wrong(self, tmp_path: Path) -> None:
        """In a place where none should be: here the name of a folder."""
        config = tmp_path / "canary-4711" / "config.toml"
        (config.parent / "credentials").mkdir(parents=True)
        (config.parent / "credentials" / "queue.token").write_text("canary-4711\n", "utf-8")
        config.write_text("[hub", "utf-8")

        typed("--config", str(config), "support-bundle", "--yes", "--out", str(tmp_path / "b"))

        found = bundle(tmp_path / "b")
        assert f"{GONE}/config.toml" in json.loads(found["config.json"])["problem"]
        assert "canary-4711" not in "".join(found.values())

    async def test_a_damaged_database_is_no_reason_to_give_none(self, tmp_path: Path) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "hub.db").write_bytes(bytes(8192))
        async with lonely_terminal(tmp_path) as lonely:
            said = await lonely.types("support-bundle", "--yes", "--out", str(tmp_path / "b"))

        found = bundle(tmp_path / "b")
        assert said.status == 0
        assert "cannot read" in missing(found)["store.json"]
        checks = {check["name"]: check for check in json.loads(found["health.json"])["checks"]}
        assert (checks["database"]["level"], "damaged" in checks["database"]["summary"]) == ("critical", True)


@pytest.mark.threat("T46")
async def test_a_secret_that_got_into_what_is_gathered_is_taken_out_and_counted(tmp_path: Path) -> None:
    """In a place where none should be: here the report that the agent wrote last."""
    canary, proxy = f"canary-{secrets.token_hex(8)}", secrets.token_hex(8)
    summary = f"refused {canary}; via http://anna:{proxy}@proxy:3128; Bearer {secrets.token_hex(20)}"
    last = HealthReport(at=NOON, checks=[Check(name="cloud", level=Level.CRITICAL, summary=summary)])
    async with lonely_terminal(tmp_path) as lonely:
        (tmp_path / "queue.token").write_text(canary, "utf-8")
        text = lonely.config.read_text("utf-8")
        cloud = '[cloud]\nurl = "https://queue.example.org"\ntoken_file = "queue.token"\n'
        lonely.config.write_text(text + cloud, "utf-8")
        (lonely.run_dir / "last-health.json").write_bytes(encode(last))

        said = await lonely.types("support-bundle", "--yes", "--out", str(tmp_path / "b"))

    found = bundle(tmp_path / "b")
    [part] = [each for each in json.loads(found["manifest.json"])["parts"] if each["name"] == "health.json"]
    assert part["redacted"] >= 3
    assert found["health.json"].count(GONE) >= 3
    for where in (said.out, said.err, *found.values()):
        assert canary not in where
        assert proxy not in where


def test_every_secret_of_the_hub_is_known_and_nothing_that_is_public(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issues("hub", "venue-7")
    slot = tmp_path / "state" / "identity" / "a.pem"
    slot.parent.mkdir(parents=True)
    slot.write_bytes(key.read_bytes() + certificate.read_bytes())
    (tmp_path / "state" / "hub.key").write_bytes(bytes(range(32)))
    (tmp_path / "credentials").mkdir()
    for name in ("queue.token", "broker.password", "credentials/other"):
        (tmp_path / name).write_text(f"canary-{name}\n", "utf-8")
    config = tmp_path / "config.toml"
    config.write_text(
        f'[hub]\nid = "venue-7"\nstate_dir = "{tmp_path / "state"}"\n'
        f'[broker]\nusername = "hub"\npassword_file = "broker.password"\n'
        f'[broker.tls]\nca_file = "{authority.certificate}"\n'
        '[cloud]\nurl = "https://queue.example.org"\ntoken_file = "queue.token"\n',
        "utf-8",
    )

    known = known_secrets(configuration.load(config), config)

    lines = [line for line in key.read_text("utf-8").splitlines() if len(line) > 40]
    secret = ["canary-queue.token", "canary-broker.password", "canary-credentials/other", *lines]
    text = "\n".join([*secret, bytes(range(32)).hex()])
    assert Redactor(known).clean(text)[0] == "\n".join([GONE] * (len(secret) + 1))
    for public in (certificate, authority.certificate, config):
        assert Redactor(known).clean(public.read_text("utf-8"))[0] == public.read_text("utf-8")


class TestTheFile:
    """Made anew or not at all."""

    @pytest.mark.parametrize("what", ["file", "link", "folder that is missing"])
    async def test_what_is_there_is_never_replaced(self, tmp_path: Path, what: str) -> None:
        file, other = tmp_path / "b.tar.gz", tmp_path / "other"
        other.write_text("precious")
        if what == "file":
            file.write_text("mine")
        elif what == "link":
            file.symlink_to(other)
        else:
            file = tmp_path / "none" / "b.tar.gz"
        async with lonely_terminal(tmp_path) as lonely:
            said = await lonely.types("support-bundle", "--yes", "--out", str(file))

        assert said.status == 1
        assert "cannot make" in said.err
        assert other.read_text() == "precious"
        assert what != "file" or file.read_text() == "mine"

    def test_a_disk_that_is_full_leaves_no_half_of_it(self) -> None:
        with pytest.raises(RejectedError, match="cannot make"):
            write(Path("/dev/full"), b"x")

    def test_the_same_parts_are_the_same_bytes(self) -> None:
        gathered = Gathered([Part("a.txt", "a", b"1"), Part("b.txt", "b", b"2")], [Missing("c.txt", "gone")])

        assert packed(HEADING, gathered) == packed(HEADING, gathered)
        assert manifest(HEADING, gathered)["missing"] == [{"name": "c.txt", "why": "gone"}]


class TestGathering:
    """One that fails stops nothing; one that is large keeps its end."""

    def test_what_cannot_be_had_is_told_without_a_secret(self) -> None:
        def fails() -> str:
            raise StorageError("cannot read; the password is hunter22\nand more")

        def is_gone() -> str:
            raise FileNotFoundError(2, "No such file", "x")

        gathered = gather(
            [Source("a", "a", fails), Source("b", "b", is_gone), Source("c", "c", lambda: "text")],
            Redactor([b"hunter22"]),
        )

        assert [part.content for part in gathered.parts] == [b"text"]
        assert [each.name for each in gathered.missing] == ["a", "b"]
        assert gathered.missing[0].why == f"cannot read; the password is {GONE}"

    def test_a_long_one_is_cut_at_a_line_after_it_was_cleaned(self) -> None:
        secret = "x" * 40
        lines = "".join(f"{number:09} {secret}\n" for number in range(100_000))

        [part] = gather([Source("log.txt", "the log", lambda: lines)], Redactor([secret.encode()])).parts

        head, first, *_ = part.content.decode().splitlines()
        assert part.is_cut
        assert len(part.content) <= PART_BYTES + len(head) + 1
        assert part.redacted == 100_000
        assert secret[:6] not in part.content.decode()
        assert head == "[what came before was cut off]"
        assert first.endswith(GONE)
        assert part.content.decode().splitlines()[-1].startswith("000099999")


@pytest.mark.parametrize("since", ["yesterday", "9999999d"])
def test_a_length_of_the_log_that_is_none_or_has_no_beginning_is_told(tmp_path: Path, since: str) -> None:
    said: Said = typed("support-bundle", "--since", since, "--out", str(tmp_path / "b"))

    assert said.status == 2
    assert not (tmp_path / "b").exists()
