"""What may be installed where: signed for, in time, for this very device, and later than what it runs."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.core.blame import Blame, blame_of
from edgeagent.core.catalogue import Artifact, Catalogue, Floor
from edgeagent.core.gate.verdict import Accept, Moment, Refuse, Verdict
from edgeagent.core.gate.world import Appliance
from edgeagent.ids import artifact_id, digest
from tests.core.gating import LOW, judged, policy, world
from tests.core.test_catalogue import artifact
from tests.core.test_gate_artifacts import Updatable
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("F1", "V3", "V4")

MOMENTS: Final = (Moment.ADMIT, Moment.ACT, Moment.REPLAY)
PLUG: Final = artifact()
APPLIANCE: Final = Appliance(family="tasmota", model="PM-1", hardware="r2", version="14.0.0(tasmota)")


def known(*listed: Artifact, revoked: tuple[Artifact, ...] = (), floors: tuple[Floor, ...] = ()) -> Catalogue:
    """A catalogue."""
    return Catalogue({one.id: one for one in listed}, {one.id: one for one in revoked}, floors)


def install(
    catalogue: Catalogue | None,
    moment: Moment = Moment.ACT,
    *,
    appliance: Appliance | None = APPLIANCE,
    named: Artifact = PLUG,
) -> Verdict:
    """What the gate says to the installation of an approved file."""
    approved = {named.id: frozenset({named.sha256})}
    around = world(
        policy=policy(actions={ActionName.INSTALL: LOW}, artifacts=approved),
        device=Updatable(),
        catalogue=catalogue,
        appliance=appliance,
    )
    arguments = {"artifact": named.id, "digest": named.sha256}
    return judged(around, moment, action=ActionName.INSTALL, arguments=arguments)


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_is_signed_approved_fitting_and_later_is_accepted(moment: Moment) -> None:
    assert isinstance(install(known(PLUG), moment), Accept)


REFUSED: Final = [
    pytest.param(known(), Reason.ARTIFACT_UNSIGNED, "nobody signs for plug-1", id="approved and not signed"),
    pytest.param(
        known(replace(PLUG, sha256=digest("6f" * 32))),
        *(Reason.ARTIFACT_UNSIGNED, "5e5e5e5e5e5e… is not signed for as plug-1"),
        id="signed with another sha256",
    ),
    pytest.param(
        known(replace(PLUG, signed=replace(PLUG.signed, until=NOON - timedelta(minutes=1)))),
        *(Reason.ARTIFACT_UNSIGNED, "the metadata of plugs ended at 2027-03-01T11:59:00Z"),
        id="its metadata are over",
    ),
    pytest.param(
        replace(known(PLUG), stale={"plugs": "it is expired"}),
        *(Reason.ARTIFACT_UNSIGNED, "the metadata of plugs are refused: it is expired"),
        id="its group is refused",
    ),
    pytest.param(
        replace(known(), contested={PLUG.id: "artifact plug-1 is signed for by lamps and by plugs"}),
        *(Reason.ARTIFACT_UNSIGNED, "artifact plug-1 is signed for by lamps and by plugs"),
        id="two groups give it to two files",
    ),
    pytest.param(
        known(revoked=(PLUG,)), Reason.ARTIFACT_REVOKED, "plug-1 is signed for no more", id="taken back"
    ),
    pytest.param(
        known(artifact(family="shelly-gen2")),
        *(Reason.ARTIFACT_MISFIT, "plug-1 is for shelly-gen2, the device is of tasmota"),
        id="another family",
    ),
    pytest.param(
        known(artifact(models=frozenset({"PM-2"}))),
        *(Reason.ARTIFACT_MISFIT, "plug-1 is not for the device's model, PM-1"),
        id="another model",
    ),
    pytest.param(
        known(artifact(hardware=frozenset({"r3"}))),
        *(Reason.ARTIFACT_MISFIT, "plug-1 is not for the device's hardware, r2"),
        id="other hardware",
    ),
    pytest.param(
        known(PLUG, floors=(Floor("plugs", "tasmota", "*", "14.2.0"),)),
        *(Reason.ARTIFACT_TOO_OLD, "14.1.0 is not known to reach 14.2.0, the floor of *"),
        id="below the floor",
    ),
    pytest.param(
        known(artifact(version="14.0.0")),
        *(Reason.ARTIFACT_NOT_NEWER, "the device runs 14.0.0(tasmota), this is 14.0.0"),
        id="what it runs already",
    ),
    pytest.param(
        known(artifact(version="13.4.0")),
        *(Reason.ARTIFACT_NOT_NEWER, "the device runs 14.0.0(tasmota), this is 13.4.0"),
        id="earlier than what it runs",
    ),
]


@pytest.mark.threat("T6")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("catalogue", "reason", "words"), REFUSED)
def test_anything_else_is_refused_with_its_reason(
    catalogue: Catalogue, reason: Reason, words: str, moment: Moment
) -> None:
    assert install(catalogue, moment) == Refuse(reason, words)
    assert blame_of(reason) is not Blame.TRANSIENT


@pytest.mark.parametrize(
    ("listed", "appliance", "is_accepted"),
    [
        pytest.param(artifact(models="*"), Appliance(family="tasmota"), True, id="for every model"),
        pytest.param(PLUG, Appliance(family="tasmota"), False, id="a model that it does not tell"),
        pytest.param(
            artifact(hardware=frozenset({"r2"})),
            *(Appliance(family="tasmota", model="PM-1"), False),
            id="hardware that it does not tell",
        ),
        pytest.param(
            PLUG,
            Appliance(family="tasmota", model="PM-1", version="custom"),
            True,
            id="a version like no other",
        ),
    ],
)
def test_what_a_device_does_not_tell_is_not_guessed(
    listed: Artifact,
    appliance: Appliance,
    is_accepted: bool,  # noqa: FBT001 - a table
) -> None:
    assert isinstance(install(known(listed), appliance=appliance), Accept) is is_accepted


def test_who_has_no_catalogue_judges_the_approval_alone() -> None:
    assert isinstance(install(None), Accept)


def test_the_queue_refuses_below_the_floor_only_what_no_model_may_have() -> None:
    for_both = artifact(models=frozenset({"PM-1", "PM-2"}))
    of_one = Floor("plugs", "tasmota", "PM-1", "14.2.0")
    of_other = Floor("plugs", "tasmota", "PM-2", "14.2.0")

    verdicts = [
        install(known(for_both, floors=floors), Moment.ADMIT, appliance=None)
        for floors in ((of_one,), (of_one, of_other))
    ]

    assert isinstance(verdicts[0], Accept)
    assert isinstance(verdicts[1], Refuse)
    assert verdicts[1].reason is Reason.ARTIFACT_TOO_OLD


def test_a_revoked_id_with_another_sha256_was_never_signed_for() -> None:
    other = replace(PLUG, sha256=digest("6f" * 32), id=artifact_id("plug-1"))

    verdict = install(known(revoked=(other,)))

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.ARTIFACT_UNSIGNED
