"""``edgeagent issuer claim`` and ``issuer hub revoke``, typed as issuers type them (SPEC H5)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.contracts.claim import read_claim
from edgeagent.core.certificates import fingerprint
from tests.cli.building import Said, typed
from tests.support.enrolled import Office, enrolling
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("H5")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    with enrolling(folder) as open_office:
        write_private(folder / "desk.token", open_office.server.issuer_token)
        write_private(folder / "audit.token", open_office.server.audit_token)
        yield open_office


def types(office: Office, *words: str, login: str = "desk", ca: bool = True) -> Said:
    file = office.root_file.parent / f"{login}.token"
    queue = ("--queue", office.server.url, "--token-file", str(file))
    return typed("issuer", *words, *queue, *(("--ca-file", str(office.folder.root)) if ca else ()))


def new(office: Office, hub: str, *words: str) -> Said:
    return types(
        office, "claim", "new", hub, "--zone", "Europe/Berlin", "--root", str(office.root_file), *words
    )


def test_a_code_is_printed_alone_and_pins_what_the_issuers_own_files_say(office: Office) -> None:
    said = new(office, "venue-1", "--policy-source", "https://files.example/policy/")

    assert said.status == 0
    [line] = said.out.splitlines()
    facts = read_claim(line).facts
    assert (facts.hub, facts.zone, facts.cloud) == ("venue-1", "Europe/Berlin", office.server.url)
    assert facts.policy == "https://files.example/policy"
    assert facts.authority == fingerprint(office.root)
    listed = types(office, "claim", "list")
    assert [row.split()[:2] for row in listed.out.splitlines()[1:] if "venue-1" in row] == [
        ["venue-1", "waiting"]
    ]
    assert read_claim(line).secret.hex() not in listed.out + office.server.log


def test_codes_are_taken_back_and_told_to_programs(office: Office) -> None:
    new(office, "venue-2")
    again = new(office, "venue-2", "--json")

    assert json.loads(again.out)["hub"] == "venue-2"
    assert types(office, "claim", "revoke", "venue-2").out == "taken back: 1\n"
    assert types(office, "claim", "revoke", "venue-2").out == "no code waits for venue-2\n"
    listed = json.loads(types(office, "claim", "list", "--json").out)["claims"]
    assert [one["state"] for one in listed if one["hub"] == "venue-2"] == ["revoked", "revoked"]
    assert types(office, "hub", "revoke", "venue-2").out == "no certificate counts of venue-2\n"


@pytest.mark.requirement("W2")
def test_an_auditor_makes_no_codes_and_reads_them(office: Office) -> None:
    words = ("claim", "new", "venue-3", "--zone", "UTC", "--root", str(office.root_file))

    refused = types(office, *words, login="audit")

    assert refused.status == 1
    assert types(office, "claim", "list", login="audit").status == 0
    assert "venue-3" not in types(office, "claim", "list").out


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        pytest.param(("--valid", "200d"), 1, "at most 90 days", id="for too long"),
        pytest.param(("--policy-source", "http://files.example"), 1, "policy", id="not https"),
        pytest.param(("--zone", "no zone!"), 1, "zone", id="no zone"),
        pytest.param(("--zone", "Mars/Base"), 1, "no time zone is called", id="a zone that nobody knows"),
        pytest.param(("--root", "none.json"), 78, "none.json", id="no root"),
    ],
)
def test_a_code_that_cannot_be_is_not_made(
    office: Office, words: tuple[str, str], status: int, told: str
) -> None:
    said = new(office, "venue-4", *words)

    assert (said.status, told in said.err) == (status, True)
    assert said.out == ""
    assert "venue-4" not in types(office, "claim", "list").out


def test_without_the_authority_no_code_is_made(office: Office, tmp_path: Path) -> None:
    two = tmp_path / "two.pem"
    two.write_bytes(office.folder.root.read_bytes() * 2)
    words = ("claim", "new", "venue-5", "--zone", "UTC", "--root", str(office.root_file))

    assert types(office, *words, ca=False).status == 78
    assert types(office, *words, "--ca-file", str(two), ca=False).status == 78
