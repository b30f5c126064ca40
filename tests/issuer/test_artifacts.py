"""Artifacts in the repository: who signs, what is refused, and what a hub reads of it at every moment."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from tuf.api.exceptions import RepositoryError

from edgeagent.adapters.metadata.reading import FolderReader
from edgeagent.adapters.metadata.verifying import published
from edgeagent.contracts.artifact import ARTIFACT_BYTES, ArtifactFacts, GroupFacts
from edgeagent.core.catalogue import Artifact, Catalogue, EquivocationError
from edgeagent.errors import ConfigurationError, MalformedError, RejectedError, UnknownError
from edgeagent.ids import ArtifactId, Digest, artifact_id
from edgeagent.issuer.keys import PrivateKey, load_public_key
from edgeagent.issuer.policy_in_force import RepositoryPolicy
from edgeagent.issuer.repository import files
from edgeagent.issuer.repository import folder as folders
from edgeagent.issuer.repository.artifacts import ArtifactRoom, NewArtifact
from edgeagent.issuer.repository.files import RepositoryFiles
from edgeagent.issuer.repository.folder import IssuerFolder
from edgeagent.issuer.repository.publishing import Publisher
from edgeagent.issuer.repository.signing import Lifetimes, MissingKeysError
from edgeagent.issuer.repository.trusted import DamagedRepositoryError, read_trusted
from tests.issuer.publishing import Issuing, issuing

pytestmark = pytest.mark.requirement("F1", "V3", "P1")

PLUG = ArtifactId("plug-14.1.0")
ALL_TASMOTA = GroupFacts(families={"tasmota": "*"})


def room(issuer: Issuing, folder: IssuerFolder | None = None) -> ArtifactRoom:
    """Whoever changes what is known of artifacts."""
    folder = folder or issuer.folder
    return ArtifactRoom(folder, Publisher(folder, issuer.clock, Lifetimes()), issuer.clock)


def plug(issuer: Issuing, name: str = PLUG, content: bytes = b"firmware", **facts: object) -> NewArtifact:
    """Firmware for plugs."""
    file = issuer.home / "firmware.bin"
    file.write_bytes(content)
    said: dict[str, object] = {"family": "tasmota", "models": frozenset({"PM-1"}), "version": "14.1.0"}
    return NewArtifact(
        id=artifact_id(name),
        group="plugs",
        file=file,
        facts=ArtifactFacts(**(said | facts)),  # type: ignore[arg-type]  # checked as it is built
    )


def listed(issuer: Issuing) -> dict[ArtifactId, Artifact]:
    """What a hub takes of it now."""
    repository = issuer.home / "venue/repository"
    root = (repository / "metadata/1.root.json").read_bytes()
    pin = Digest(sha256(root).hexdigest())
    found = published(FolderReader(repository), root, None, issuer.clock.wall().earliest, pin)
    assert found.listing is not None, found.listing_problem
    assert not found.listing.stale
    return {one.id: one for artifacts in found.listing.groups.values() for one in artifacts}


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def issuer(tmp_path: Path) -> Issuing:
    made = issuing(tmp_path)
    room(made).add_role("plugs", ALL_TASMOTA)
    return made


def test_a_group_has_an_encrypted_key_of_its_own_and_signs_for_nothing_yet(issuer: Issuing) -> None:
    file = issuer.home / "venue/offline/artifacts-plugs-1.pem"

    assert b"ENCRYPTED" in file.read_bytes()
    assert listed(issuer) == {}
    [metadata] = json.loads((issuer.home / "venue/repository/metadata/2.targets.json").read_bytes())[
        "signed"
    ]["delegations"]["roles"]
    assert (metadata["name"], metadata["paths"], metadata["terminating"]) == (
        "artifacts-plugs", ["artifacts/plugs/*"], True
    )  # fmt: skip


def test_what_is_added_is_signed_for_and_not_yet_released(issuer: Issuing) -> None:
    added = room(issuer).add(plug(issuer, floor="14.0.0", security=True, notes="mends the web page"))

    [artifact] = listed(issuer).values()
    assert artifact == added
    assert artifact.facts.floor == "14.0.0"
    digits = sha256(b"firmware").hexdigest()
    file = issuer.home / f"venue/repository/targets/artifacts/plugs/{digits}.{PLUG}"
    assert file.read_bytes() == b"firmware"
    assert read_trusted(issuer.folder.files).policy.artifacts == {}


def test_adding_needs_the_groups_key_and_the_online_one_alone(issuer: Issuing) -> None:
    for name in ("policy-1.pem", "root-1.pem", "root-2.pem", "root-3.pem"):
        (issuer.home / "venue/offline" / name).unlink()

    room(issuer).add(plug(issuer))

    assert set(listed(issuer)) == {PLUG}


def test_what_is_released_is_in_the_next_policy(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))

    changed = room(issuer).release(PLUG)

    digits = sha256(b"firmware").hexdigest()
    assert changed.trusted.policy.version == 2
    assert changed.trusted.policy.artifacts == {PLUG: {digits}}
    assert f'"{PLUG}" = ["{digits}"]' in changed.told[0]
    assert "no rule for install" in changed.told[1]


def test_what_was_done_already_is_not_done_again(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    room(issuer).release(PLUG)
    before = content(issuer.home / "venue")

    room(issuer).add(plug(issuer))
    room(issuer).release(PLUG)

    assert content(issuer.home / "venue") == before


def test_what_is_revoked_is_in_no_list_and_its_file_is_gone(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    room(issuer).release(PLUG)

    changed = room(issuer).revoke(PLUG)

    assert listed(issuer) == {}
    assert changed.trusted.policy.artifacts == {}
    assert not list((issuer.home / "venue/repository/targets").rglob(f"*.{PLUG}"))
    assert changed.told == [f"take {PLUG} out of your policy's file as well"]


def test_without_the_groups_key_it_is_out_of_the_policy_which_is_enough(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    room(issuer).release(PLUG)
    (issuer.home / "venue/offline/artifacts-plugs-1.pem").unlink()

    changed = room(issuer).revoke(PLUG)

    assert changed.trusted.policy.artifacts == {}
    assert set(listed(issuer)) == {PLUG}
    assert "with the keys of artifacts-plugs, again" in changed.told[1]


def test_what_was_revoked_comes_back_under_another_id_only(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    room(issuer).revoke(PLUG)
    before = content(issuer.home / "venue")

    with pytest.raises(RejectedError, match="was revoked; give the file a new id"):
        room(issuer).add(plug(issuer))

    assert content(issuer.home / "venue") == before
    room(issuer).add(plug(issuer, "plug-14.1.0-b"))


@pytest.mark.threat("T6")
@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        pytest.param(
            {"content": b"other"}, EquivocationError, "as another file or with other words", id="bytes"
        ),
        pytest.param({"models": "*"}, EquivocationError, "as another file or with other words", id="words"),
        pytest.param(
            {"name": "b", "version": "13.0.0", "floor": None},
            RejectedError,
            "not known to reach 14.0.0",
            id="floor",
        ),
        pytest.param(
            {"name": "b", "floor": "99.0.0"}, MalformedError, "not above its own floor", id="own floor"
        ),
        pytest.param(
            {"name": "b", "version": "192", "floor": "192"}, RejectedError, "not known to reach", id="shape"
        ),
        pytest.param({"name": "b", "content": b""}, RejectedError, "an empty file", id="empty"),
        pytest.param(
            {"name": "b", "hardware": frozenset(f"{n}{'r' * 150}" for n in range(40))},
            *(MalformedError, "are allowed"),
            id="too much said",
        ),
    ],
)
def test_what_contradicts_what_is_signed_for_is_refused_and_nothing_changes(
    issuer: Issuing, other: dict[str, object], error: type[Exception], words: str
) -> None:
    room(issuer).add(plug(issuer, floor="14.0.0"))
    new = plug(issuer, **{"floor": "14.0.0", **other})  # type: ignore[arg-type]
    before = content(issuer.home / "venue")

    with pytest.raises(error, match=words):
        room(issuer).add(new)

    assert content(issuer.home / "venue") == before


def test_a_file_beyond_the_bound_is_refused_before_it_is_copied(issuer: Issuing) -> None:
    new = plug(issuer)
    with new.file.open("r+b") as file:
        file.truncate(ARTIFACT_BYTES + 1)
    before = content(issuer.home / "venue")

    with pytest.raises(RejectedError, match="which is no artifact"):
        room(issuer).add(new)

    assert content(issuer.home / "venue") == before


def _of_no_group(issuer: Issuing) -> None:
    room(issuer).add(replace(plug(issuer), group="lamps"))


def _not_there(issuer: Issuing) -> None:
    room(issuer).add(replace(plug(issuer), file=issuer.home / "nothing"))


def _in_another_group(issuer: Issuing) -> None:
    room(issuer).add(replace(plug(issuer, "known"), group="others"))


@pytest.mark.parametrize(
    ("act", "error"),
    [
        pytest.param(_of_no_group, UnknownError, id="no such group"),
        pytest.param(_not_there, ConfigurationError, id="no such file"),
        pytest.param(_in_another_group, EquivocationError, id="an id of another group"),
        pytest.param(lambda one: room(one).release(PLUG), UnknownError, id="releasing what nobody signs for"),
        pytest.param(lambda one: room(one).revoke(PLUG), UnknownError, id="revoking what nobody signs for"),
        pytest.param(lambda one: room(one).add_role("plugs", ALL_TASMOTA), RejectedError, id="a group twice"),
        pytest.param(
            lambda one: room(one).add_role("../x", ALL_TASMOTA), MalformedError, id="a group that climbs"
        ),
        pytest.param(
            lambda one: room(one).add_role("x", ALL_TASMOTA, threshold=2), RejectedError, id="too few keys"
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    issuer: Issuing, act: Callable[[Issuing], object], error: type[Exception]
) -> None:
    room(issuer).add_role("others", ALL_TASMOTA)
    room(issuer).add(plug(issuer, "known"))
    before = content(issuer.home / "venue")

    with pytest.raises(error):
        act(issuer)

    assert content(issuer.home / "venue") == before


def test_who_signs_policies_does_not_sign_for_artifacts_too(issuer: Issuing) -> None:
    key = load_public_key(issuer.home / "venue/offline/policy-1.pem.pub")

    with pytest.raises(RejectedError, match="a key of targets does not sign for artifacts too"):
        room(issuer).add_role("lamps", ALL_TASMOTA, [key])


def test_a_key_that_is_not_at_hand_leaves_all_as_it_was(issuer: Issuing) -> None:
    (issuer.home / "venue/offline/artifacts-plugs-1.pem").unlink()
    before = content(issuer.home / "venue")

    with pytest.raises(MissingKeysError):
        room(issuer).add(plug(issuer))

    assert content(issuer.home / "venue") == before


def test_what_cannot_be_revoked_for_want_of_a_key_is_as_it_was(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    room(issuer).release(PLUG)
    (issuer.home / "venue/offline/policy-1.pem").unlink()
    before = content(issuer.home / "venue")

    with pytest.raises(MissingKeysError):
        room(issuer).revoke(PLUG)

    assert content(issuer.home / "venue") == before


class Cut(Exception):  # noqa: N818 - the power's, not an error of ours
    """The power was cut."""


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("word", ["add", "release", "revoke"])
def test_a_cut_anywhere_leaves_the_old_and_the_same_word_again_completes_it(
    issuer: Issuing, monkeypatch: pytest.MonkeyPatch, word: str, after: int
) -> None:
    acts: dict[str, Callable[[], object]] = {
        "add": lambda: room(issuer).add(plug(issuer)),
        "release": lambda: room(issuer).release(PLUG),
        "revoke": lambda: room(issuer).revoke(PLUG),
    }
    for earlier in list(acts)[: list(acts).index(word)]:
        acts[earlier]()
    before, written = listed(issuer), 0
    write = files.write_whole

    def cut(path: Path, raw: bytes, **mode: int) -> None:
        nonlocal written
        written += 1
        if written > after:
            raise Cut
        write(path, raw, **mode)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_whole", cut)
        patched.setattr(folders, "write_whole", cut)
        with suppress(Cut):
            acts[word]()
    if written > after:
        assert listed(issuer) == before
        acts[word]()

    assert set(listed(issuer)) == (set() if word == "revoke" else {PLUG})
    assert bool(read_trusted(issuer.folder.files).policy.artifacts) is (word == "release")


def test_a_builders_own_signer_signs(issuer: Issuing) -> None:
    builder = PrivateKey.new()
    folder = replace(issuer.folder, external=[builder])
    room(issuer, folder).add_role("lamps", ALL_TASMOTA, [builder.public])

    room(issuer, folder).add(replace(plug(issuer, "lamp-1"), group="lamps"))

    assert set(listed(issuer)) == {"lamp-1"}
    assert not list((issuer.home / "venue/offline").glob("artifacts-lamps*"))


def test_of_two_keys_both_have_to_sign_where_the_threshold_says_so(issuer: Issuing) -> None:
    one, other = PrivateKey.new(), PrivateKey.new()
    both = replace(issuer.folder, external=[one, other])
    room(issuer, both).add_role("lamps", ALL_TASMOTA, [one.public, other.public], threshold=2)

    with pytest.raises(MissingKeysError, match="2 of the 2 keys of artifacts-lamps are needed; 1 at hand"):
        room(issuer, replace(issuer.folder, external=[one])).add(replace(plug(issuer), group="lamps"))


def test_a_group_signs_for_its_devices_alone(issuer: Issuing) -> None:
    room(issuer).add_role("lamps", GroupFacts(families={"tasmota": frozenset({"L-1"})}))
    before = content(issuer.home / "venue")

    with pytest.raises(MalformedError, match="lamps may not sign for PM-1 of tasmota"):
        room(issuer).add(replace(plug(issuer, "lamp-1"), group="lamps"))
    assert content(issuer.home / "venue") == before

    more = GroupFacts(families={"tasmota": frozenset({"L-1", "PM-1"})})
    room(issuer).rotate_role("lamps", devices=more)
    room(issuer).add(replace(plug(issuer, "lamp-1"), group="lamps"))
    room(issuer).rotate_role("lamps")
    assert read_trusted(issuer.folder.files).devices_of("lamps") == more
    assert set(listed(issuer)) == {"lamp-1"}


def test_devices_are_not_taken_from_a_group_that_has_signed_for_them(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    before = content(issuer.home / "venue")

    with pytest.raises(RejectedError, match=f"{PLUG} is for other devices: revoke it first"):
        room(issuer).rotate_role("plugs", devices=GroupFacts(families={"shelly-gen2": "*"}))

    assert content(issuer.home / "venue") == before


@pytest.mark.threat("T7")
def test_other_keys_of_a_group_sign_anew_what_it_has_signed(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))

    changed = room(issuer).rotate_role("plugs")

    assert [file.name for file in changed.made] == ["artifacts-plugs-2.pem"]
    assert set(listed(issuer)) == {PLUG}
    (issuer.home / "venue/offline/artifacts-plugs-1.pem").unlink()
    room(issuer).add(plug(issuer, "plug-14.2.0", version="14.2.0"))
    assert len(listed(issuer)) == 2


def test_the_renewal_of_the_offline_keys_renews_the_groups_too(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    issuer.clock.passes(timedelta(days=20))

    trusted = issuer.publisher.renew()

    assert trusted.expiries["artifacts-plugs"] == trusted.expiries["targets"]
    assert set(listed(issuer)) == {PLUG}


def test_a_change_of_the_policys_key_or_of_the_policy_leaves_the_groups(issuer: Issuing) -> None:
    room(issuer).add(plug(issuer))
    issuer.publisher.replace_role_key(["targets"], issuer.folder.new_key("policy"))

    issuer.publisher.publish(issuer.policy(2))
    issuer.publisher.refresh()

    assert set(listed(issuer)) == {PLUG}


@pytest.mark.requirement("R1")
def test_a_reader_sees_old_or_new_after_each_file_that_is_written(
    issuer: Issuing, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(issuer).add(plug(issuer))
    seen: list[set[str]] = []
    write = RepositoryFiles.write_metadata

    def looked_at(self: RepositoryFiles, name: str, raw: bytes) -> None:
        write(self, name, raw)
        seen.append(set(listed(issuer)))

    monkeypatch.setattr(RepositoryFiles, "write_metadata", looked_at)
    room(issuer).add(plug(issuer, "plug-2"))

    assert seen == [{PLUG}, {PLUG}, {PLUG, "plug-2"}]


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"signed":{}}'])
def test_a_damaged_role_is_never_built_upon(issuer: Issuing, damage: bytes) -> None:
    (issuer.home / "venue/repository/metadata/1.artifacts-plugs.json").write_bytes(damage)

    with pytest.raises((DamagedRepositoryError, RepositoryError), match="artifacts-plugs"):
        room(issuer).add(plug(issuer))


@pytest.mark.requirement("V7")
def test_the_queues_gate_knows_what_the_repository_signs_for(issuer: Issuing) -> None:
    in_force = RepositoryPolicy(issuer.folder.files)
    in_force.load()
    before = in_force.current()

    room(issuer).add(plug(issuer))
    after = in_force.current()

    assert before is not None
    assert after is not None
    assert before.catalogue == Catalogue()
    assert after.catalogue is not None
    assert set(after.catalogue.listed) == {PLUG}
