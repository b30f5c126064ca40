"""``edgeagent issuer artifact``, as typed."""

import sys
from pathlib import Path

import pytest

from edgeagent.issuer.keys import PrivateKey, save_key, save_public_key
from tests.cli.building import Said, typed
from tests.cli.test_issuer_repository import Desk
from tests.issuer.test_signers import TOOL

pytestmark = pytest.mark.requirement("F1", "V3", "P1")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk with a group of models and a file."""
    desk = Desk(tmp_path)
    assert desk.types("init", desk.venue, "--policy", desk.policy).status == 0
    assert desk.changes("artifact", "role", "add", "plugs", "--for", "tasmota").status == 0
    (tmp_path / "plug.bin").write_bytes(b"firmware")
    return desk


def add(desk: Desk, *words: str, name: str = "plug-1", group: str = "plugs") -> Said:
    """Sign for the file."""
    return desk.changes(
        *("artifact", "add", desk.home / "plug.bin", "--id", name, "--group", group),
        *("--family", "tasmota", "--model", "PM-1", "--version", "14.1.0", *words),
    )


def test_each_word_says_what_it_did_and_what_is_next(desk: Desk) -> None:
    added = add(desk, "--security")
    released = desk.changes("artifact", "release", "plug-1")
    listed = typed("issuer", "artifact", "list", "--folder", str(desk.venue))
    groups = typed("issuer", "artifact", "role", "list", "--folder", str(desk.venue))
    revoked = desk.changes("artifact", "revoke", "plug-1")

    assert {said.status for said in (added, released, listed, groups, revoked)} == {0}
    assert "signed    plug-1 14.1.0 by plugs" in added.out
    assert "next      edgeagent issuer artifact release plug-1" in added.out
    assert "policy 2" in released.out
    assert "write in your policy's file, under [artifacts]" in released.out
    assert "yes" in listed.out
    assert "1 of 1" in groups.out
    assert "tasmota all models" in groups.out
    assert "take plug-1 out of your policy's file as well" in revoked.out


def test_programs_are_told_the_same(desk: Desk) -> None:
    added = add(desk, "--json").json
    released = desk.changes("artifact", "release", "plug-1", "--json").json
    listed = typed("issuer", "artifact", "list", "--folder", str(desk.venue), "--json").json
    groups = typed("issuer", "artifact", "role", "list", "--folder", str(desk.venue), "--json").json

    assert isinstance(added, dict)
    assert isinstance(released, dict)
    assert (added["artifact"], added["bytes"], released["policy"]) == ("plug-1", 8, 2)
    assert listed == {"artifacts": [added | {"released": True}]}
    assert isinstance(groups, dict)
    assert [group["artifacts"] for group in groups["groups"]] == [1]  # type: ignore[index, call-overload, union-attr]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(("--version", "14.1.0 or so"), "version", id="a version with spaces"),
        pytest.param(("--family", "../x"), "family", id="a family that climbs"),
        pytest.param(("--about", "a\x1b[2Jb"), "notes", id="what a terminal would act on"),
        pytest.param(("--floor", "99.0"), "not above its own floor", id="below its own floor"),
        pytest.param(("--unpacked-bytes", "0"), "unpacked_bytes", id="no room"),
        pytest.param(("--group", "lamps"), "there is no group lamps", id="no such group"),
        pytest.param(("--id", "../x"), "not a artifact id", id="an id that climbs"),
    ],
)
def test_what_cannot_be_signed_for_is_refused_with_its_place_and_nothing_changes(
    desk: Desk, words: tuple[str, ...], why: str
) -> None:
    before = desk.everything()

    said = add(desk, *words)

    assert said.status != 0
    assert why in said.err
    assert desk.everything() == before


def test_a_builders_own_command_signs(desk: Desk) -> None:
    key = PrivateKey.new()
    private, public = desk.home / "builder.pem", desk.home / "builder.pub"
    save_key(key, private, passphrase=None)
    save_public_key(key.public, public)
    tool = desk.home / "tool"
    tool.write_text(TOOL)
    signer = ("--signer", f"{sys.executable} '{tool}' '{private}'", "--signer-public", str(public))

    made = desk.changes("artifact", "role", "add", "lamps", "--for", "tasmota", "--key", public, *signer)
    said = add(desk, *signer, name="lamp-1", group="lamps")

    assert (made.status, said.status) == (0, 0), made.err + said.err
    assert not list((desk.venue / "offline").glob("artifacts-lamps*"))
