"""The catalogue: one id is one file for ever, what is gone is revoked, floors only grow."""

from datetime import timedelta

import pytest

from edgeagent.contracts.artifact import ArtifactFacts
from edgeagent.core import catalogue as catalogues
from edgeagent.core.catalogue import Artifact, Catalogue, EquivocationError, Floor, Signed, following, listing
from edgeagent.errors import RejectedError
from edgeagent.ids import artifact_id, digest
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("F1", "V3")

NOBODY: frozenset[str] = frozenset()


def artifact(
    name: str = "plug-1", *, group: str = "plugs", sha256: str = "5e" * 32, role: int = 1, **facts: object
) -> Artifact:
    """A file for plugs."""
    said: dict[str, object] = {"family": "tasmota", "models": frozenset({"PM-1"}), "version": "14.1.0"}
    return Artifact(
        id=artifact_id(name),
        sha256=digest(sha256),
        length=3,
        facts=ArtifactFacts(**(said | facts)),  # type: ignore[arg-type]  # checked as it is built
        signed=Signed(group=group, version=role, until=NOON + timedelta(days=90)),
    )


def taken(*artifacts: Artifact, old: Catalogue | None = None, anew: frozenset[str] = NOBODY) -> Catalogue:
    """What is known once these are listed."""
    return following(old or Catalogue(), listing(artifacts), anew=anew)


def test_what_is_listed_no_more_is_revoked_and_may_come_back_as_it_was() -> None:
    both = taken(artifact("a"), artifact("b"))

    one = taken(artifact("a"), old=both)
    again = taken(artifact("a"), artifact("b"), old=one)

    assert (set(one.listed), set(one.revoked)) == ({"a"}, {"b"})
    assert (set(again.listed), set(again.revoked)) == ({"a", "b"}, set())


@pytest.mark.threat("T6")
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(artifact(sha256="6f" * 32), id="other bytes"),
        pytest.param(artifact(models="*"), id="other words"),
        pytest.param(artifact(group="lamps"), id="another group"),
    ],
)
def test_an_id_is_not_given_to_another_file_while_it_is_listed_or_after(other: Artifact) -> None:
    listed = taken(artifact())
    revoked = taken(old=listed)

    for old in (listed, revoked):
        with pytest.raises(EquivocationError, match="plug-1 is another file than it was"):
            taken(other, old=old)


def test_new_metadata_of_the_same_file_are_the_same_file() -> None:
    assert taken(artifact(role=2), old=taken(artifact(role=1))).listed["plug-1"].signed.version == 2  # type: ignore[index]


@pytest.mark.threat("T7")
def test_keys_that_were_replaced_take_back_what_they_said() -> None:
    stolen = taken(artifact(sha256="66" * 32, version="99.0.0", floor="99.0.0"))

    found = taken(artifact(), old=stolen, anew=frozenset({"plugs"}))

    assert found.listed["plug-1"].sha256 == "5e" * 32  # type: ignore[index]
    assert found.floors == ()


def test_two_groups_do_not_sign_for_one_id() -> None:
    with pytest.raises(EquivocationError, match="by plugs and by lamps"):
        listing([artifact(), artifact(group="lamps")])


def test_a_floor_grows_and_outlives_what_set_it() -> None:
    first = taken(artifact("a", floor="14.0.0"), artifact("b", models=frozenset({"PM-2"}), floor="13.0.0"))
    second = taken(artifact("c", floor="14.1.0"), old=first)
    third = taken(artifact("d", floor="13.5.0"), old=second)

    assert third.floors == (
        Floor("plugs", "tasmota", "PM-1", "14.1.0"),
        Floor("plugs", "tasmota", "PM-2", "13.0.0"),
    )


def test_a_floor_of_another_shape_is_refused() -> None:
    with pytest.raises(RejectedError, match="floor 192 cannot be compared with"):
        taken(artifact("b", version="192", floor="192"), old=taken(artifact("a", floor="14.1.0")))


@pytest.mark.parametrize(
    ("facts", "model", "is_too_old"),
    [
        pytest.param({"version": "14.0.0"}, "PM-1", True, id="below"),
        pytest.param({"version": "14.1.0"}, "PM-1", False, id="at"),
        pytest.param({"version": "14.0.0"}, "PM-2", False, id="another model"),
        pytest.param({"version": "14.0.0", "family": "shelly-gen2"}, "PM-1", False, id="another family"),
        pytest.param(
            {"version": "14.0.0", "models": "*"}, None, True, id="for all, of a device that tells none"
        ),
        pytest.param({"version": "r7"}, "PM-1", True, id="nobody can tell"),
    ],
)
def test_a_floor_is_for_its_models(facts: dict[str, object], model: str | None, is_too_old: bool) -> None:  # noqa: FBT001 - a table
    known = Catalogue(floors=(Floor("plugs", "tasmota", "PM-1", "14.1.0"),))

    assert (known.floor_over(artifact(**facts), model) is not None) is is_too_old  # type: ignore[arg-type]


@pytest.mark.threat("T7")
def test_a_floor_of_one_group_does_not_keep_another_groups_files_from_devices() -> None:
    """Who holds one builder's key could else stop every update of every other."""
    thief = artifact("lamp-1", group="lamps", models="*", version="99.0.0", floor="99.0.0")

    found = taken(thief, artifact())

    assert found.floor_over(artifact(), "PM-1") is None
    assert found.floor_over(artifact("lamp-0", group="lamps", models="*"), "PM-1") is not None


def test_of_what_was_revoked_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "MOST_REVOKED", 2)

    found = taken(old=taken(artifact("a", role=1), artifact("b", role=2), artifact("c", role=3)))

    assert set(found.revoked) == {"b", "c"}
