"""What may be installed: files that a signed list names by id and sha256, and no others."""

from typing import Final

import pytest
from typing_extensions import override

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.blame import Blame, blame_of
from edgeagent.core.breaker import Signal, signals_of
from edgeagent.core.gate.verdict import Accept, Moment, Refuse, Verdict
from edgeagent.ids import artifact_id, digest
from tests.core.gating import LOW, Lamp, judged, policy, world

pytestmark = pytest.mark.requirement("V3", "V4")

GOOD, OTHER = "5e" * 32, "6f" * 32
ARTIFACT: Final = "lamp-1.4.2"
MOMENTS: Final = (Moment.ADMIT, Moment.ACT, Moment.REPLAY)


class Updatable(Lamp):
    """A lamp that takes firmware."""

    @override
    def check(self, action: ActionName, arguments: Arguments) -> None:
        """It knows one action more."""
        if action is not ActionName.INSTALL:
            super().check(action, arguments)


def approving(**files: str) -> Policy:
    """A policy by which these files may be installed; none where none is named."""
    listed = {
        artifact_id(name.replace("_", "-")): frozenset({digest(sha256)}) for name, sha256 in files.items()
    }
    return policy(actions={ActionName.INSTALL: LOW}, artifacts=listed)


def install(terms: Policy, moment: Moment, *, artifact: str = ARTIFACT, sha256: str = GOOD) -> Verdict:
    """What the gate says to a lamp's new firmware."""
    arguments = {"artifact": artifact, "digest": sha256}
    around = world(policy=terms, device=Updatable())
    return judged(around, moment, action=ActionName.INSTALL, arguments=arguments)


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_is_listed_by_id_and_sha256_is_accepted(moment: Moment) -> None:
    assert isinstance(install(approving(lamp=GOOD), moment, artifact="lamp"), Accept)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("terms", "words"),
    [
        pytest.param(approving(), "no file is approved as lamp", id="nothing is listed"),
        pytest.param(approving(lamp_2=GOOD), "no file is approved as lamp", id="the file has another name"),
        pytest.param(
            approving(lamp=OTHER), "5e5e5e5e5e5e… is not approved as lamp", id="the name has another file"
        ),
    ],
)
def test_what_is_not_listed_is_refused_also_right_before_the_act(
    terms: Policy, words: str, moment: Moment
) -> None:
    assert install(terms, moment, artifact="lamp") == Refuse(Reason.ARTIFACT_NOT_APPROVED, words)


@pytest.mark.parametrize(
    ("artifact", "sha256"),
    [
        pytest.param("http://10.0.0.9/lamp.bin", GOOD, id="an address"),
        pytest.param("../lamp", GOOD, id="a path"),
        pytest.param(ARTIFACT, GOOD.upper(), id="a sha256 in capitals"),
        pytest.param(ARTIFACT, GOOD[:-2], id="a short sha256"),
    ],
)
def test_what_is_no_artifact_is_a_bad_argument(artifact: str, sha256: str) -> None:
    verdict = install(approving(), Moment.ADMIT, artifact=artifact, sha256=sha256)

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.BAD_ARGUMENTS


@pytest.mark.requirement("E1", "B1")
def test_it_is_never_tried_again_and_counts_against_who_asked() -> None:
    assert blame_of(Reason.ARTIFACT_NOT_APPROVED) is Blame.PERMANENT
    assert signals_of(Reason.ARTIFACT_NOT_APPROVED) == (Signal.INVALID,)
