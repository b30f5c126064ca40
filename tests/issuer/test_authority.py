"""The authority: what it makes is what openssl takes, and nothing of it is made twice (SPEC H5, W3)."""

import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from edgeagent.core.certificates import (
    RETIRED,
    UnprovenCertificateError,
    check_hub_chain,
    fingerprint,
    key_id,
    pem_of,
    read_chain,
    renewal_due,
    retired_by,
)
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import HubId
from edgeagent.issuer.authority import AuthorityFolder, load_tls_key
from edgeagent.issuer.certifying import HUB_LIFETIME, Authority
from tests.cli.building import typed

pytestmark = pytest.mark.requirement("H5")

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
HUB = HubId("venue-7")
PASSPHRASE = b"correct horse battery"


@pytest.fixture
def folder(tmp_path: Path) -> AuthorityFolder:
    return AuthorityFolder(tmp_path / "ca")


@pytest.fixture
def authority(folder: AuthorityFolder) -> Authority:
    return folder.found("test", NOW, passphrase=PASSPHRASE)


def hub_chain(authority: Authority, hub: HubId = HUB, now: datetime = NOW) -> tuple[x509.Certificate, ...]:
    return authority.certify_hub(hub, ec.generate_private_key(ec.SECP256R1()).public_key(), now, HUB_LIFETIME)


def openssl(*words: str | Path) -> str:
    return subprocess.run(["openssl", *words], capture_output=True, text=True, check=True).stdout


def test_openssl_takes_hubs_for_clients_and_the_queue_for_a_server(
    folder: AuthorityFolder, authority: Authority, tmp_path: Path
) -> None:
    folder.certify_server(["queue.example", "127.0.0.1"], NOW, DAY)
    (tmp_path / "hub.pem").write_bytes(pem_of(hub_chain(authority)))
    trust = ("verify", "-CAfile", folder.root, "-untrusted", folder.path / "issuing.pem", "-x509_strict")

    hub = openssl(*trust, "-purpose", "sslclient", tmp_path / "hub.pem")
    server = openssl(*trust, "-purpose", "sslserver", "-verify_hostname", "queue.example", folder.server[0])

    assert hub.endswith("OK\n")
    assert server.endswith("OK\n")
    printed = openssl("x509", "-in", folder.root, "-noout", "-fingerprint", "-sha256").strip()
    assert printed.partition("=")[2].replace(":", "").lower() == fingerprint(authority.root)


@pytest.mark.requirement("W3")
def test_keys_are_their_owners_and_the_roots_is_encrypted(
    folder: AuthorityFolder, authority: Authority
) -> None:
    folder.certify_server(["localhost"], NOW, DAY)

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.path.glob("*.key")}

    assert modes == {"root.key": 0o600, "issuing.key": 0o600, "server.key": 0o600}
    assert b"ENCRYPTED" in (folder.path / "root.key").read_bytes()
    (folder.path / "issuing.key").chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        folder.load()
    assert authority.key.curve.name == "secp256r1"


def test_an_authority_is_made_once(folder: AuthorityFolder, authority: Authority) -> None:
    files = {file.name: file.read_bytes() for file in folder.path.iterdir()}

    with pytest.raises(ConfigurationError, match="made once"):
        folder.found("test", NOW, passphrase=PASSPHRASE)

    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == files
    assert folder.load().root == authority.root


def test_the_queues_certificate_is_renewed_with_its_key(
    folder: AuthorityFolder, authority: Authority
) -> None:
    first = folder.certify_server(["localhost"], NOW, DAY)
    key = load_tls_key(folder.server[1]).private_numbers()

    renewed = folder.certify_server(["localhost"], NOW + DAY, 2 * DAY)

    assert load_tls_key(folder.server[1]).private_numbers() == key
    assert renewed.not_valid_after_utc > first.not_valid_after_utc
    assert read_chain(folder.server[0].read_bytes()) == (renewed, authority.issuing)


def test_nothing_outlasts_whoever_signs_it(authority: Authority) -> None:
    late = authority.issuing.not_valid_after_utc - DAY

    assert hub_chain(authority, now=late)[0].not_valid_after_utc == authority.issuing.not_valid_after_utc
    with pytest.raises(ConfigurationError, match="has ended"):
        hub_chain(authority, now=late + 10 * DAY)


@pytest.mark.requirement("W2")
def test_another_issuing_key_takes_the_place_of_the_present_one_under_the_same_root(
    folder: AuthorityFolder, authority: Authority
) -> None:
    folder.certify_server(["queue.example", "127.0.0.1"], NOW, DAY)
    first, server_key = hub_chain(authority), folder.server[1].read_bytes()
    root = folder.root.read_bytes()

    made = folder.rotate(NOW, passphrase=PASSPHRASE)
    again = folder.rotate(NOW, passphrase=PASSPHRASE)

    assert folder.load().issuing == again.issuing
    assert (folder.root.read_bytes(), folder.server[1].read_bytes()) == (root, server_key)
    assert retired_by(again.issuing) == (key_id(made.issuing), key_id(authority.issuing))
    # Both are good under the root: hubs come over one by one.
    for chain in (first, hub_chain(made), hub_chain(again)):
        check_hub_chain(chain, again.root, HUB, NOW)
    server = read_chain(folder.server[0].read_bytes())
    assert server[1] == again.issuing
    assert server[0].not_valid_after_utc == NOW + DAY
    trust = ("verify", "-CAfile", folder.root, "-untrusted", folder.path / "issuing.pem", "-x509_strict")
    for name in ("-verify_hostname", "queue.example"), ("-verify_ip", "127.0.0.1"):
        assert openssl(*trust, "-purpose", "sslserver", *name, folder.server[0]).endswith("OK\n")
    assert sorted(file.name for file in folder.path.glob("*.key")) == [
        "issuing.key",
        "root.key",
        "server.key",
    ]


def test_only_who_has_the_roots_key_and_its_passphrase_replaces_the_issuing_one(
    folder: AuthorityFolder, authority: Authority
) -> None:
    folder.certify_server(["localhost"], NOW, DAY)
    files = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    stranger = AuthorityFolder(folder.path.with_name("stranger"))
    stranger.found("stranger", NOW, passphrase=PASSPHRASE)

    with pytest.raises(ConfigurationError, match="with this passphrase"):
        folder.rotate(NOW, passphrase=b"another one")
    kept = (folder.path / "root.key").rename(folder.path.with_name("away.key"))
    with pytest.raises(ConfigurationError, match=r"root\.key"):
        folder.rotate(NOW, passphrase=PASSPHRASE)
    (stranger.path / "root.key").rename(folder.path / "root.key")
    with pytest.raises(ConfigurationError, match="do not belong together"):
        folder.rotate(NOW, passphrase=PASSPHRASE)

    kept.replace(folder.path / "root.key")
    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == files
    assert folder.load().issuing == authority.issuing


def test_a_turn_that_was_cut_off_anywhere_leaves_what_signs_and_is_made_whole_by_the_same_again(
    folder: AuthorityFolder, authority: Authority, tmp_path: Path
) -> None:
    folder.certify_server(["localhost"], NOW, DAY)
    old = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    made = folder.rotate(NOW, passphrase=PASSPHRASE)
    new = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    # In the order in which they are written.
    steps = (("server.pem", "server.pem"), ("next.key", "issuing.key"), ("issuing.pem", "issuing.pem"))
    for count in range(len(steps) + 1):
        cut = AuthorityFolder(tmp_path / f"cut-{count}")
        cut.path.mkdir()
        written = {name: new[of] for name, of in steps[:count]}
        for name, content in (old | written).items():
            (cut.path / name).write_bytes(content)
            (cut.path / name).chmod(0o600)

        signs = cut.load()
        assert signs.issuing == (made if count == len(steps) else authority).issuing
        check_hub_chain(hub_chain(signs), signs.root, HUB, NOW)
        anew = cut.rotate(NOW, passphrase=PASSPHRASE)

        assert cut.load().issuing == anew.issuing
        assert key_id(signs.issuing) in retired_by(anew.issuing)
        assert not (cut.path / "next.key").exists()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x30",
        b"\x30\x00\x00",
        b"\x04\x14" + b"k" * 20,
        b"\x30\x15\x04\x13" + b"k" * 19,
        b"\x30\x16\x04\x14" + b"k" * 19,
        b"\x30\x16\x04\x14" + b"k" * 21,
    ],
)
def test_earlier_keys_that_are_named_in_another_way_are_not_taken(authority: Authority, value: bytes) -> None:
    [leaf, _] = hub_chain(authority)
    builder = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.subject)
        .public_key(leaf.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + DAY)
    )
    named = builder.add_extension(x509.UnrecognizedExtension(RETIRED, value), critical=False)

    with pytest.raises(UnprovenCertificateError, match="in another way"):
        retired_by(named.sign(authority.key, hashes.SHA256()))


def test_a_hubs_chain_is_believed_for_that_hub_in_its_time_by_its_root_alone(
    folder: AuthorityFolder, authority: Authority
) -> None:
    chain = hub_chain(authority)
    stranger = AuthorityFolder(folder.path / "stranger").found("test", NOW, passphrase=PASSPHRASE)
    folder.certify_server(["localhost"], NOW, DAY)
    server = read_chain(folder.server[0].read_bytes())

    check_hub_chain(chain, authority.root, HUB, NOW)

    for wrong, root, hub, at in (
        (chain, authority.root, HubId("venue-8"), NOW),
        (chain, stranger.root, HUB, NOW),
        (chain[:1], authority.root, HUB, NOW),
        (chain, authority.root, HUB, NOW + 91 * DAY),
        (chain, authority.root, HUB, NOW - DAY),
        (server, authority.root, HUB, NOW),
        ((chain[1],), authority.root, HUB, NOW),
    ):
        with pytest.raises(UnprovenCertificateError):
            check_hub_chain(wrong, root, hub, at)


def test_a_renewal_is_due_at_two_thirds_and_not_for_all_at_once(authority: Authority) -> None:
    [leaf, _] = hub_chain(authority)

    first, last = renewal_due(leaf, 0.0), renewal_due(leaf, 0.999)

    assert timedelta(days=59) < first - NOW < timedelta(days=61)
    assert timedelta(days=2) < last - first < timedelta(days=4)
    assert last < leaf.not_valid_after_utc - 25 * DAY


def test_a_name_that_is_none_is_told(folder: AuthorityFolder, authority: Authority) -> None:
    with pytest.raises(MalformedError, match="neither a host"):
        folder.certify_server(["quëue"], NOW, DAY)
    assert not folder.server[0].exists()
    assert authority.root.subject.rfc4514_string() == "CN=test root"


class TestWords:
    """``edgeagent issuer ca``."""

    def test_from_nothing_to_what_ends_when(self, tmp_path: Path) -> None:
        (tmp_path / "secret").touch(mode=0o600)
        (tmp_path / "secret").write_bytes(PASSPHRASE)
        here = ("--folder", str(tmp_path / "ca"))

        made = typed("issuer", "ca", "init", *here, "--passphrase-file", str(tmp_path / "secret"))
        served = typed("issuer", "ca", "server", "queue.example", "10.0.0.1", *here)
        shown = typed("issuer", "ca", "show", *here)
        short = typed("issuer", "ca", "server", "queue.example", "--lifetime", "5d", *here)
        soon = typed("issuer", "ca", "show", *here)

        assert (made.status, served.status, shown.status, short.status) == (0, 0, 0, 0)
        assert f"lock away {tmp_path / 'ca' / 'root.key'}" in made.out
        told = fingerprint(AuthorityFolder(tmp_path / "ca").read_root())
        assert told in made.out
        assert shown.out.splitlines()[0].endswith(told)
        assert (soon.status, "server ends soon" in soon.err) == (1, True)

    def test_another_issuing_key_is_made_by_one_word(self, tmp_path: Path) -> None:
        (tmp_path / "secret").touch(mode=0o600)
        (tmp_path / "secret").write_bytes(PASSPHRASE)
        folder = AuthorityFolder(tmp_path / "ca")
        before = folder.found("test", NOW, passphrase=PASSPHRASE)
        here = ("issuer", "ca", "rotate", "--folder", str(folder.path))

        asked = typed(*here)
        made = typed(*here, "--passphrase-file", str(tmp_path / "secret"))

        assert (asked.status, "--passphrase-file" in asked.err) == (78, True)
        assert made.status == 0
        assert key_id(folder.load().issuing).hex() in made.out
        assert key_id(folder.load().issuing) != key_id(before.issuing)
        assert f"lock away {folder.path / 'root.key'}" in made.out

    def test_a_short_passphrase_makes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "secret").touch(mode=0o600)
        (tmp_path / "secret").write_bytes(b"short")
        made = ("issuer", "ca", "init", "--folder", str(tmp_path / "ca"))

        said = typed(*made, "--passphrase-file", str(tmp_path / "secret"))

        assert said.status == 78
        assert not (tmp_path / "ca").exists()
