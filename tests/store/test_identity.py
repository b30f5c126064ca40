"""Two slots, of which one is always whole, whatever is cut in between (SPEC H5, W3)."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from edgeagent.core.certificates import UnprovenCertificateError, public_key_of, read_request
from edgeagent.ids import HubId
from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.issuer.certifying import Authority
from edgeagent.store.identity import IdentitySlots, UnusableSlotError

pytestmark = pytest.mark.requirement("H5")

HUB = HubId("venue-7")
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return AuthorityFolder(tmp_path_factory.mktemp("ca")).found(
        "test", NOW, passphrase=b"correct horse battery"
    )


@pytest.fixture
def slots(tmp_path: Path) -> IdentitySlots:
    return IdentitySlots(tmp_path / "identity")


def certified(authority: Authority, request: x509.CertificateSigningRequest) -> tuple[x509.Certificate, ...]:
    return authority.certify_hub(HUB, public_key_of(request), NOW, timedelta(days=90))


def enrolled(authority: Authority, slots: IdentitySlots) -> Path:
    """The slot that is shown, after a first certificate."""
    slots.show(slots.put(certified(authority, slots.request(HUB))).file)
    return slots.load().file


def test_a_new_hub_shows_nothing(slots: IdentitySlots) -> None:
    assert not slots.is_enrolled
    assert slots.waiting() is None
    with pytest.raises(UnusableSlotError, match="not enrolled"):
        slots.load()


def test_the_key_is_made_here_belongs_to_nobody_else_and_is_asked_for_again_as_long_as_no_answer_came(
    slots: IdentitySlots, authority: Authority
) -> None:
    first, again = slots.request(HUB), slots.request(HUB)

    assert read_request(first.public_bytes(Encoding.DER)).is_signature_valid
    assert public_key_of(first) == public_key_of(again)
    assert stat.S_IMODE((slots.folder / "next.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(slots.folder.stat().st_mode) == 0o700
    enrolled(authority, slots)
    assert public_key_of(slots.request(HUB)) != public_key_of(first), "each certificate has a key of its own"


def test_a_renewal_takes_the_other_slot_and_the_earlier_one_stays(
    slots: IdentitySlots, authority: Authority
) -> None:
    first = enrolled(authority, slots)
    kept = first.read_bytes()

    stored = slots.put(certified(authority, slots.request(HUB)))

    assert stored.file != first
    assert slots.load().file == first
    assert slots.waiting() == stored
    slots.show(stored.file)
    assert slots.load() == slots.read(stored.file)
    assert slots.current.read_bytes() == stored.file.read_bytes()
    assert first.read_bytes() == kept
    assert slots.waiting() is None
    assert stat.S_IMODE(stored.file.stat().st_mode) == 0o600


def test_a_certificate_for_another_key_is_not_stored(slots: IdentitySlots, authority: Authority) -> None:
    enrolled(authority, slots)
    theirs = IdentitySlots(slots.folder / "theirs").request(HUB)
    before = sorted(slots.folder.iterdir())

    with pytest.raises(UnprovenCertificateError):
        slots.put(certified(authority, theirs))

    assert [path for path in sorted(slots.folder.iterdir()) if path.name != "next.key"] == before


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"", "damaged", id="empty"),
        pytest.param(bytes(2000), "damaged", id="zeros"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "damaged", id="half"),
        pytest.param(b"x" * 100_000, "damaged", id="too much"),
    ],
)
def test_a_slot_that_is_damaged_is_told(
    slots: IdentitySlots, authority: Authority, content: bytes, word: str
) -> None:
    enrolled(authority, slots).write_bytes(content)

    with pytest.raises(UnusableSlotError, match=word):
        slots.load()


@pytest.mark.requirement("W3")
def test_an_identity_that_others_may_read_is_not_used(slots: IdentitySlots, authority: Authority) -> None:
    enrolled(authority, slots).chmod(0o640)

    with pytest.raises(UnusableSlotError, match="chmod 600"):
        slots.load()


def test_a_key_that_a_power_cut_brings_back_is_not_certified_again(
    slots: IdentitySlots, authority: Authority
) -> None:
    request = slots.request(HUB)
    key = (slots.folder / "next.key").read_bytes()
    slots.show(slots.put(certified(authority, request)).file)
    (slots.folder / "next.key").write_bytes(key)

    assert slots.waiting() is None
    assert public_key_of(slots.request(HUB)) != public_key_of(request)


def test_what_was_cut_in_the_middle_is_written_again(slots: IdentitySlots, authority: Authority) -> None:
    shown = enrolled(authority, slots)
    for left in (".a.pem.new", ".b.pem.new", ".next.key.new", ".current.new"):
        (slots.folder / left).write_bytes(b"half")
    (slots.folder / "next.key").write_bytes(b"half")

    slots.show(slots.put(certified(authority, slots.request(HUB))).file)

    assert slots.load().file != shown
    assert slots.waiting() is None


def test_what_is_shown_is_never_dropped(slots: IdentitySlots, authority: Authority) -> None:
    shown = enrolled(authority, slots)
    stored = slots.put(certified(authority, slots.request(HUB)))

    slots.drop(shown)
    slots.drop(stored.file)

    assert slots.load().file == shown
    assert slots.waiting() is None
    assert not stored.file.exists()
