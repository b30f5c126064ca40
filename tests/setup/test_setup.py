"""From a claim code to a hub, by the words that people type, against the real queue (SPEC H5)."""

import asyncio
import getpass
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from edgeagent.config import load
from edgeagent.contracts.claim import Claim, claim_text
from edgeagent.contracts.reports.setup import SetupReport
from edgeagent.core.certificates import read_chain, serial_text
from edgeagent.ids import hub_id
from edgeagent.ports.crash import CrashPoint
from edgeagent.store.identity import IdentitySlots
from tests.cli.building import Said, typed
from tests.issuer.publishing import issuing
from tests.support.agents import ROOT
from tests.support.brokers import Mosquitto, free_port
from tests.support.enrolled import Office, enrolling

DEATHS: Final = (CrashPoint.CERTIFICATE_GIVEN, CrashPoint.CERTIFICATE_STORED, CrashPoint.CERTIFICATE_SHOWN)

pytestmark = pytest.mark.requirement("H5")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    issuing(folder)
    with enrolling(folder, repository=folder / "venue" / "repository") as open_office:
        yield open_office


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("broker")) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that is to become a hub, below one folder.

    Attributes:
        folder: that.
        broker: which its mosquitto listens on.
    """

    folder: Path
    broker: int

    @property
    def config(self) -> Path:
        return self.folder / "etc" / "config.toml"

    @property
    def slots(self) -> IdentitySlots:
        return IdentitySlots(self.folder / "state" / "identity")

    def sets_up(self, claim: Claim | str, *words: str) -> Said:
        """Type ``edgeagent setup`` with a claim code."""
        text = claim if isinstance(claim, str) else claim_text(claim)
        return self.types("--claim", text, "--yes", "--broker-address", f"127.0.0.1:{self.broker}", *words)

    def types(self, *words: str) -> Said:
        where = ("--state-dir", str(self.folder / "state"), "--run-dir", str(self.folder / "run"))
        return self.types_alone(*where, *words)

    def types_alone(self, *words: str) -> Said:
        """Type ``edgeagent setup`` and do not say where things are."""
        options = ("--user", getpass.getuser(), "--no-start")
        return typed("--config", str(self.config), "setup", *options, *words)

    def files(self) -> dict[str, bytes]:
        """Everything that is there."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


def code(office: Office, hub: str) -> Claim:
    """A claim code that the queue knows."""
    return asyncio.run(office.claims(hub))


async def revoke(office: Office, hub: str) -> None:
    async with office.issuer() as issuer:
        await issuer.revoke(hub_id(hub))


@pytest.fixture
def machine(tmp_path: Path, broker: Mosquitto) -> Machine:
    return Machine(tmp_path, broker.port)


def test_a_blank_machine_becomes_the_hub_of_its_code(office: Office, machine: Machine) -> None:
    said = machine.sets_up(code(office, "venue-1"))

    assert (said.status, said.err.splitlines()[0]) == (0, "hub       venue-1 (Europe/Berlin)")
    config = load(machine.config)
    assert (config.hub.id, config.hub.zone) == ("venue-1", "Europe/Berlin")
    assert config.cloud is not None
    assert (config.cloud.url, config.cloud.token_file) == (office.server.url, None)
    assert config.policy is not None
    assert config.policy.source == f"{office.server.url}/v1/policy"
    assert (machine.config.parent / "root.json").read_bytes() == office.root_file.read_bytes()
    assert machine.slots.load().hub == "venue-1"
    assert typed("--config", str(machine.config), "config", "check").status == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["done"] * 4 + ["kept", "next"]


@pytest.mark.requirement("W3")
def test_nobody_else_may_read_what_is_secret(office: Office, machine: Machine) -> None:
    machine.sets_up(code(office, "venue-2"))

    modes = {
        str(path.relative_to(machine.folder)): stat.S_IMODE(path.stat().st_mode)
        for path in machine.folder.rglob("*")
    }

    assert modes["etc/config.toml"] == 0o640
    assert modes["etc/credentials"] == modes["state"] == modes["state/identity"] == 0o700
    assert {mode for name, mode in modes.items() if name.endswith(("a.pem", "b.pem", "claim"))} == {0o600}
    assert not [name for name in modes if name.endswith((".new", "next.key", "next-authority.pem"))]


def test_the_same_words_again_change_nothing(office: Office, machine: Machine) -> None:
    claim = code(office, "venue-3")
    machine.sets_up(claim)
    files = machine.files()

    said = machine.sets_up(claim)

    assert said.status == 0
    assert machine.files() == files
    assert {line.split()[0] for line in said.out.splitlines()} == {"kept", "next"}


def test_a_zone_that_this_machine_does_not_know_is_refused_before_the_code_is_used_up(
    office: Office, machine: Machine
) -> None:
    good = code(office, "venue-4")
    claim = replace(good, facts=good.facts.model_copy(update={"zone": "Mars/Base"}))

    said = machine.sets_up(claim)

    assert (said.status, "no time zone is called 'Mars/Base'" in said.err) == (78, True)
    assert machine.files() == {}
    assert machine.sets_up(good).status == 0


def test_a_dry_run_asks_nobody_and_writes_nothing(office: Office, machine: Machine) -> None:
    claim = code(office, "venue-4")

    said = machine.sets_up(claim, "--dry-run")

    assert said.status == 0
    assert machine.files() == {}
    assert '+id = "venue-4"' in said.out
    assert machine.sets_up(claim).status == 0


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda text: text[:40] + ("A" if text[40] != "A" else "B") + text[41:], id="one letter"),
        pytest.param(lambda text: text[:-9], id="cut"),
        pytest.param(lambda text: text.replace("EA1-", "EA2-"), id="another kind"),
        pytest.param(lambda _: "", id="nothing"),
        pytest.param(lambda _: "ü" * 300, id="no code"),
        pytest.param(lambda _: "EA1-" + "A" * 5000, id="too long"),
    ],
)
def test_a_code_that_is_mistyped_is_told_and_not_sent(
    office: Office, machine: Machine, harm: Callable[[str], str]
) -> None:
    claim = code(office, "venue-5")

    said = machine.sets_up(harm(claim_text(claim)))

    assert said.status == 1
    assert "claim code" in said.err
    assert machine.files() == {}
    assert claim.secret.hex() not in said.err


def test_a_code_may_be_written_as_people_write(office: Office, machine: Machine) -> None:
    text = claim_text(code(office, "venue-6"))

    said = machine.sets_up(text.lower().replace("-", " ").replace("o", "0"))

    assert said.status == 0


def test_another_queue_or_another_policy_than_the_code_names_is_not_believed(
    office: Office, machine: Machine, tmp_path: Path
) -> None:
    claim = code(office, "venue-7")
    (tmp_path / "elsewhere").mkdir()
    with enrolling(tmp_path / "elsewhere") as stranger:
        moved = Claim(claim.facts.model_copy(update={"cloud": stranger.server.url}), claim.secret)
        elsewhere = machine.sets_up(moved)
    other = Claim(claim.facts.model_copy(update={"root": "0" * 64}), claim.secret)

    forged = machine.sets_up(other)

    assert (elsewhere.status, "another authority" in elsewhere.err) == (1, True)
    assert (forged.status, "another root" in forged.err) == (1, True)
    assert not machine.config.exists()
    assert not (machine.config.parent / "root.json").exists()
    assert machine.sets_up(claim).status == 0, "the code is as good as before for the key that has it"


@pytest.mark.requirement("R8")
def test_without_the_queue_it_stops_and_goes_on_later(office: Office, machine: Machine) -> None:
    claim = code(office, "venue-8")
    office.server.kill()
    try:
        said = machine.sets_up(claim)
    finally:
        office.server.start()

    assert said.status == 1
    assert "the same words go on from here" in said.err
    assert not machine.config.exists()
    assert machine.sets_up(claim).status == 0


def test_a_code_that_was_used_elsewhere_makes_no_second_hub(
    office: Office, machine: Machine, tmp_path: Path
) -> None:
    claim = code(office, "venue-9")
    Machine(tmp_path / "first", machine.broker).sets_up(claim)

    said = machine.sets_up(claim)

    assert (said.status, "was used" in said.err) == (1, True)
    assert not machine.config.exists()
    assert not machine.slots.is_enrolled


def test_a_configuration_that_somebody_wrote_is_kept_or_put_aside_never_lost(
    office: Office, machine: Machine
) -> None:
    claim = code(office, "venue-10")
    machine.config.parent.mkdir()
    machine.config.write_text('# mine\n[hub]\nid = "another"\n')

    refused = machine.sets_up(claim)

    assert refused.status == 78
    assert '[hub] id = "venue-10"' in refused.err
    assert not machine.slots.is_enrolled, "nothing was asked for: a code works once"
    replaced = machine.sets_up(claim, "--replace-config")
    assert replaced.status == 0
    [kept] = machine.config.parent.glob("config.toml.before-*")
    assert kept.read_text() == '# mine\n[hub]\nid = "another"\n'
    own = machine.config.read_text() + '\n[log]\nlevel = "warning"\n'
    machine.config.write_text(own)
    assert machine.sets_up(claim).status == 0
    assert machine.config.read_text() == own
    assert tomllib.loads(own)["hub"]["id"] == "venue-10"


def test_a_hub_is_enrolled_anew_by_another_code_and_keeps_its_configuration(
    office: Office, machine: Machine
) -> None:
    machine.sets_up(code(office, "venue-11"))
    before, text = machine.slots.load(), machine.config.read_bytes()
    asyncio.run(revoke(office, "venue-11"))
    shut_out = machine.types("check")

    said = machine.sets_up(code(office, "venue-11"))

    assert (shut_out.status, "is revoked" in shut_out.out) == (2, True)
    assert said.status == 0
    assert machine.slots.load() != before
    assert machine.config.read_bytes() == text


def test_a_configuration_that_is_kept_says_where_the_new_identity_goes(
    office: Office, machine: Machine
) -> None:
    machine.sets_up(code(office, "venue-31"))
    asyncio.run(revoke(office, "venue-31"))
    before, text = machine.slots.load(), machine.config.read_bytes()

    said = machine.types_alone("--claim", claim_text(code(office, "venue-31")), "--yes")

    assert said.status == 0, said.err
    assert f"folders: {machine.config.parent}, {machine.folder / 'state'}" in said.out
    assert machine.slots.load() != before
    assert machine.config.read_bytes() == text


@pytest.mark.requirement("R8")
def test_a_configuration_that_is_kept_says_which_proxy_to_go_through(
    office: Office, machine: Machine
) -> None:
    machine.sets_up(code(office, "venue-32"))
    direct, claim = machine.config.read_text(), code(office, "venue-32")
    nowhere = f'[cloud]\nproxy = "http://127.0.0.1:{free_port()}"'
    machine.config.write_text(direct.replace("[cloud]", nowhere))
    before = machine.slots.load()

    without_it = machine.types_alone("--claim", claim_text(claim), "--yes")
    unused = machine.slots.load()
    machine.config.write_text(direct)
    said = machine.types_alone("--claim", claim_text(claim), "--yes")

    assert (without_it.status, "the same words go on from here" in without_it.err) == (1, True)
    assert unused == before
    assert said.status == 0, said.err
    assert machine.slots.load() != before


@pytest.mark.parametrize(
    ("hub", "flag", "value", "line"),
    [
        ("venue-33", "--state-dir", "/srv/elsewhere", '[hub] state_dir = "/srv/elsewhere"'),
        ("venue-34", "--run-dir", "/run/elsewhere", '[hub] run_dir = "/run/elsewhere"'),
        ("venue-35", "--proxy", "http://127.0.0.1:9/", '[cloud] proxy = "http://127.0.0.1:9"'),
    ],
)
def test_a_flag_that_says_otherwise_than_the_configuration_that_is_kept_takes_no_code(
    office: Office, machine: Machine, hub: str, flag: str, value: str, line: str
) -> None:
    machine.sets_up(code(office, hub))
    files, claim = machine.files(), code(office, hub)

    refused = machine.types_alone("--claim", claim_text(claim), "--yes", flag, value)

    assert (refused.status, line in refused.err) == (78, True)
    assert machine.files() == files
    assert machine.types_alone("--claim", claim_text(claim), "--yes").status == 0


def test_check_says_what_is_missing_and_what_to_do(office: Office, machine: Machine) -> None:
    nothing = machine.types("check")
    machine.sets_up(code(office, "venue-12"))
    well = machine.types("check")
    machine.config.chmod(0o644)
    open_ = machine.types("check")
    machine.config.chmod(0o640)
    (machine.config.parent / "root.json").unlink()
    machine.slots.load().file.write_bytes(b"")
    damaged = machine.types("check")

    assert (nothing.status, "edgeagent setup --claim" in nothing.out) == (2, True)
    assert well.status == 0
    assert f"{office.server.url} lets this hub in" in well.out
    assert (open_.status, "chmod 0640" in open_.out) == (1, True)
    assert damaged.status == 2
    assert "root.json" in damaged.out
    assert "damaged" in damaged.out


@pytest.mark.parametrize("address", ["nowhere", "a b:1883", '":1883', "host:port", "host:99999", ":1883"])
def test_a_broker_that_is_no_address_is_told(office: Office, machine: Machine, address: str) -> None:
    said = machine.types(
        "--claim", claim_text(code(office, "venue-15")), "--yes", "--broker-address", address
    )

    assert (said.status, "HOST:PORT" in said.err) == (78, True)
    assert machine.files() == {}


@pytest.mark.parametrize(
    "address", ["ftp://proxy.lan", "proxy.lan:3128", "http://", "http:// x", "http://me:geheim@proxy.lan"]
)
def test_a_proxy_that_is_no_address_is_told(office: Office, machine: Machine, address: str) -> None:
    said = machine.types("--claim", claim_text(code(office, "venue-17")), "--yes", "--proxy", address)

    assert (said.status, "--proxy: not an address like http" in said.err) == (78, True)
    assert "geheim" not in said.err
    assert machine.files() == {}


def test_what_makes_no_configuration_is_told_before_the_code_is_used(
    office: Office, machine: Machine
) -> None:
    claim = code(office, "venue-23")

    said = machine.types("--claim", claim_text(claim), "--yes", "--broker-address", "hub.lan:0")

    assert (said.status, "broker.port" in said.err) == (78, True)
    assert machine.files() == {}
    assert machine.sets_up(claim).status == 0


@pytest.mark.parametrize(
    ("hub", "text"),
    [
        pytest.param("venue-18", b"half", id="half"),
        pytest.param("venue-19", '[hub]\nid = "café"\n'.encode("latin-1"), id="another encoding"),
    ],
)
def test_a_configuration_that_is_no_toml_is_kept_and_the_ways_on_are_named(
    office: Office, machine: Machine, hub: str, text: bytes
) -> None:
    claim = code(office, hub)
    machine.config.parent.mkdir()
    machine.config.write_bytes(text)

    refused = machine.sets_up(claim)
    before = machine.files()
    shown = machine.sets_up(claim, "--replace-config", "--dry-run")
    replaced = machine.sets_up(claim, "--replace-config")

    assert refused.status == 78
    for words in ("config.toml", "edgeagent config check", "--replace-config"):
        assert words in refused.err
    assert list(before.values()) == [text]
    assert (shown.status, "would     configuration" in shown.out) == (0, True)
    assert replaced.status == 0
    [kept] = machine.config.parent.glob("config.toml.before-*")
    assert kept.read_bytes() == text


def test_what_is_no_file_takes_no_code_and_stays(office: Office, machine: Machine) -> None:
    claim = code(office, "venue-25")
    machine.config.mkdir(parents=True)

    refused = [machine.sets_up(claim, *words) for words in ((), ("--replace-config",))]
    machine.config.rmdir()

    assert [said.status for said in refused] == [78, 78]
    assert "is no file; nothing was done" in refused[1].err
    assert machine.sets_up(claim).status == 0


def test_whatever_stands_in_the_name_of_a_folder_the_configuration_is_in_order(
    office: Office, tmp_path: Path, broker: Mosquitto
) -> None:
    machine = Machine(tmp_path / 'a "venue", c:\\hub', broker.port)
    machine.folder.mkdir()

    said = machine.sets_up(code(office, "venue-20"))

    assert said.status == 0
    assert load(machine.config).hub.state_dir == machine.folder / "state"


@pytest.mark.requirement("R4", "R8")
def test_a_clock_that_is_behind_is_told_and_costs_no_code(office: Office, machine: Machine) -> None:
    claim = code(office, "venue-16")
    office.server.kill()
    right = office.folder.server[0].read_bytes()
    # To a machine whose clock is two days behind, the queue's certificate looks so.
    office.folder.certify_server(["localhost"], datetime.now(UTC) + timedelta(days=2), timedelta(days=1))
    office.server.start()
    behind = machine.sets_up(claim)
    office.server.kill()
    office.folder.server[0].write_bytes(right)
    office.server.start()

    assert (behind.status, "timedatectl" in behind.err) == (1, True)
    assert not machine.config.exists()
    assert machine.sets_up(claim).status == 0


def test_programs_get_it_as_one_object(office: Office, machine: Machine) -> None:
    said = machine.sets_up(code(office, "venue-13"), "--json")

    report = said.report(SetupReport)
    assert report.hub == "venue-13"
    assert [step.name for step in report.steps] == [
        *("folders", "identity", "root", "configuration", "broker", "services")
    ]
    assert {check.level for check in report.checks} == {"ok"}


def test_nobody_there_to_be_asked_is_told_what_to_type(machine: Machine) -> None:
    said = machine.types("--yes")

    assert said.status == 1
    assert "edgeagent setup --claim CODE" in said.err


def test_no_such_user_is_told(office: Office, machine: Machine) -> None:
    said = machine.sets_up(code(office, "venue-24"), "--user", "nobody-here")

    assert (said.status, "there is no user nobody-here" in said.err) == (78, True)
    assert machine.files() == {}


@pytest.mark.requirement("W3")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_root_makes_the_identity_as_the_agents_user_and_no_link_of_that_user_leads_it_elsewhere(
    office: Office, broker: Mosquitto
) -> None:
    claim = code(office, "venue-21")
    # A test's own folder is root's alone.
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as folder:
        machine, elsewhere = Machine(Path(folder), broker.port), Path(folder) / "elsewhere"
        for made in (machine.folder, elsewhere):
            made.mkdir(exist_ok=True)
            made.chmod(0o755)
        machine.slots.folder.parent.mkdir(mode=0o700)
        machine.slots.folder.symlink_to(elsewhere)
        shutil.chown(machine.slots.folder.parent, "nobody", "nogroup")

        led = machine.sets_up(claim, "--user", "nobody")
        found = list(elsewhere.iterdir())
        machine.slots.folder.unlink()
        said = machine.sets_up(claim, "--user", "nobody")

        assert (led.status, "Permission denied" in led.err, found) == (1, True, [])
        assert said.status == 0
        assert {path.owner() for path in machine.slots.folder.rglob("*")} == {"nobody"}
        assert {path.owner() for path in machine.config.parent.rglob("*")} == {"root"}


@pytest.mark.requirement("W3")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_disk_of_its_own_for_the_state_is_roots_as_it_comes_and_given_to_the_agents_user(
    office: Office, broker: Mosquitto
) -> None:
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as folder:
        machine = Machine(Path(folder), broker.port)
        machine.folder.chmod(0o755)
        state = machine.slots.folder.parent
        (state / "lost+found").mkdir(parents=True)

        said = machine.sets_up(code(office, "venue-26"), "--user", "nobody")

        assert said.status == 0, said.err
        assert f"done      folders: {machine.config.parent}, {state}" in said.out
        assert (state.owner(), stat.S_IMODE(state.stat().st_mode)) == ("nobody", 0o700)
        assert (state / "lost+found").owner() == "root"


@pytest.mark.requirement("R3")
@pytest.mark.parametrize(("hub", "name"), [("venue-27", "claim"), ("venue-28", ".current.new")])
def test_what_the_disk_does_not_take_of_the_identity_costs_no_code(
    office: Office, machine: Machine, hub: str, name: str
) -> None:
    machine.sets_up(code(office, hub))
    before, claim = machine.slots.load(), code(office, hub)
    (machine.slots.folder / name).unlink(missing_ok=True)
    # A folder in the place of a file: whoever is root, nothing is written there.
    (machine.slots.folder / name).mkdir()
    refused = machine.sets_up(claim)
    shown = machine.slots.load()
    (machine.slots.folder / name).rmdir()

    said = machine.sets_up(claim)

    assert (refused.status, "cannot write" in refused.err) == (1, True)
    assert shown == before
    assert (said.status, "done      identity" in said.out) == (0, True), said.err
    assert machine.slots.load() != before
    assert f"{office.server.url} lets this hub in" in machine.types("check").out
    assert "kept      identity" in machine.sets_up(claim).out


@pytest.mark.parametrize("noted", [pytest.param(2, id="now"), pytest.param(1, id="by an earlier version")])
def test_the_same_words_are_known_again_after_the_certificate_was_renewed(
    office: Office, machine: Machine, noted: int
) -> None:
    hub = f"venue-{28 + noted}"
    claim = code(office, hub)
    machine.sets_up(claim)
    note = machine.slots.folder / "claim"
    note.write_text(" ".join(note.read_text().split()[:noted]) + "\n")
    asyncio.run(renew(office, machine.slots))
    renewed = machine.slots.load()

    said = machine.sets_up(claim)

    assert (said.status, "kept      identity" in said.out) == (0, True), said.err
    assert machine.slots.load() == renewed


async def renew(office: Office, slots: IdentitySlots) -> None:
    """Show the next certificate, as the agent does at two thirds of the life of this one."""
    request = slots.request(slots.load().hub)
    chain = await office.registry(slots).renew(request.public_bytes(Encoding.DER))
    slots.show(slots.put(read_chain(chain)).file)


@pytest.mark.slow
@pytest.mark.requirement("R5")
def test_killed_anywhere_the_same_words_go_on_and_there_is_one_certificate(
    office: Office, machine: Machine
) -> None:
    claim, keys = code(office, "venue-14"), set()
    for death in (*DEATHS, "identity", "configuration"):
        died = subprocess.run(
            [sys.executable, "-m", "tests.support.crash_setup", machine.folder, death, str(machine.broker)],
            input=claim_text(claim),
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert died.returncode == -signal.SIGKILL, death
        key = machine.slots.folder / "next.key"
        keys |= {key.read_bytes()} if key.exists() else set()

    said = machine.sets_up(claim)

    assert said.status == 0
    assert {line.split()[0] for line in said.out.splitlines()} == {"kept", "next"}
    assert len(keys) == 1
    asyncio.run(is_let_in_by_its_first_certificate(office, machine))


async def is_let_in_by_its_first_certificate(office: Office, machine: Machine) -> None:
    serial = serial_text(machine.slots.load().certificate)
    assert (await office.registry(machine.slots).shown(machine.slots.current)).counts
    async with office.issuer() as issuer:
        assert [one.serial for one in await issuer.claims() if one.hub == "venue-14"] == [serial]
