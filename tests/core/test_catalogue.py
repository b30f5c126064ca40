"""The catalogue: one id is one file for ever, what is gone is revoked, floors only grow."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

import pytest

from edgeagent.contracts.artifact import ArtifactFacts
from edgeagent.core import catalogue as catalogues
from edgeagent.core.catalogue import Artifact, Catalogue, Floor, Listing, Signed, following, sound
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


def taken(
    *artifacts: Artifact,
    old: Catalogue | None = None,
    anew: frozenset[str] = NOBODY,
    stale: Mapping[str, str] = MappingProxyType({}),
) -> Catalogue:
    """What is known once these are listed; plugs list something or nothing where they are not stale."""
    groups: dict[str, list[Artifact]] = {} if "plugs" in stale else {"plugs": []}
    for one in artifacts:
        groups.setdefault(one.signed.group, []).append(one)
    return following(old or Catalogue(), Listing(groups, anew, stale))


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
        found = taken(other, old=old)

        assert "plug-1 is another file than it was" in found.stale[other.signed.group]
        known = found.listed.get(other.id) or found.revoked[other.id]
        assert known == artifact()


def test_new_metadata_of_the_same_file_are_the_same_file() -> None:
    assert taken(artifact(role=2), old=taken(artifact(role=1))).listed["plug-1"].signed.version == 2  # type: ignore[index]


@pytest.mark.threat("T7")
def test_keys_that_were_replaced_take_back_what_they_said() -> None:
    stolen = taken(artifact(sha256="66" * 32, version="99.0.0", floor="99.0.0"))

    found = taken(artifact(), old=stolen, anew=frozenset({"plugs"}))

    assert found.listed["plug-1"].sha256 == "5e" * 32  # type: ignore[index]
    assert found.floors == ()


def test_an_id_to_which_two_groups_give_a_file_at_once_is_nobodys() -> None:
    found = taken(artifact(), artifact("a"), artifact(group="lamps"), artifact("b", group="lamps"))

    assert set(found.listed) == {"a", "b"}
    assert found.contested == {"plug-1": "artifact plug-1 is signed for by lamps and by plugs"}
    assert found.stale == {}
    with pytest.raises(RejectedError, match="by lamps and by plugs"):
        sound(Listing({"plugs": [artifact()], "lamps": [artifact(group="lamps")]}))


@pytest.mark.threat("T6")
def test_who_signs_for_the_id_of_another_costs_himself_alone() -> None:
    before = taken(artifact(), artifact("lamp-1", group="lamps"))

    found = taken(
        *(artifact(), artifact("plug-2"), artifact(group="lamps"), artifact("lamp-2", group="lamps")),
        old=before,
    )

    assert set(found.listed) == {"plug-1", "plug-2", "lamp-1"}
    assert found.stale == {"lamps": "artifact plug-1 is signed for by lamps and by plugs"}


def test_what_a_stale_group_signed_for_is_known_and_doubted_until_it_is_mended() -> None:
    before = taken(artifact(floor="14.0.0"), artifact("lamp-1", group="lamps"))

    stale = taken(artifact("lamp-2", group="lamps"), old=before, stale={"plugs": "it is expired"})
    mended = taken(artifact(floor="14.0.0"), artifact("lamp-2", group="lamps"), old=stale)

    assert set(stale.listed) == {"plug-1", "lamp-2"}
    assert stale.floors == before.floors
    assert (stale.doubt(artifact()), stale.doubt(artifact(group="lamps"))) == ("it is expired", "")
    assert stale.problems == ("plugs: it is expired",)
    assert (mended.problems, set(mended.revoked)) == ((), {"lamp-1"})


def test_a_group_has_room_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "MOST_ARTIFACTS", 2)
    monkeypatch.setattr(catalogues, "MOST_FLOORS", 1)
    crowd = [artifact(name, group="lamps") for name in ("a", "b", "c")]
    floors = [artifact("d", group="locks", models=frozenset({"L-1", "L-2"}), floor="14.0.0")]

    found = taken(artifact(), *crowd, *floors)

    assert set(found.listed) == {"plug-1"}
    assert found.stale == {
        "lamps": "3 artifacts, of which 2 are allowed",
        "locks": "2 floors, of which 1 are allowed",
    }


def test_a_floor_grows_and_outlives_what_set_it() -> None:
    first = taken(artifact("a", floor="14.0.0"), artifact("b", models=frozenset({"PM-2"}), floor="13.0.0"))
    second = taken(artifact("c", floor="14.1.0"), old=first)
    third = taken(artifact("d", floor="13.5.0"), old=second)

    assert third.floors == (
        Floor("plugs", "tasmota", "PM-1", "14.1.0"),
        Floor("plugs", "tasmota", "PM-2", "13.0.0"),
    )


def test_a_floor_of_another_shape_is_refused() -> None:
    found = taken(artifact("b", version="192", floor="192"), old=taken(artifact("a", floor="14.1.0")))

    assert "floor 192 cannot be compared with" in found.stale["plugs"]
    assert set(found.listed) == {"a"}


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


def test_of_what_a_group_has_revoked_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "MOST_REVOKED", 2)
    before = [artifact("a", role=1), artifact("b", role=2), artifact("c", role=3)]

    found = taken(old=taken(*before, artifact("lamp-1", group="lamps")))

    assert set(found.revoked) == {"b", "c", "lamp-1"}
