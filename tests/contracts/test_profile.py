"""The shape of a device profile: strict, frozen, nothing unknown."""

import pytest
from pydantic import ValidationError

from edgeagent.contracts.profile import PROFILE_BYTES, DeviceProfile
from edgeagent.contracts.recipes import Echo, Reply
from edgeagent.core.profile.load import load
from edgeagent.profiles.shipped import shipped_profiles

pytestmark = pytest.mark.requirement("M1", "V1")

SMALL = (
    '{"format":1,"id":"thing","version":"1.0.0","title":"A thing","transport":"hub",'
    '"reading":{"power":{"kind":"boolean","words":{"true":"ON","false":["OFF","0"]},"from":[{"topic":"a"}]}}}'
)


def test_a_word_is_one_text_or_a_list_of_them() -> None:
    profile = DeviceProfile.model_validate_json(SMALL)

    assert profile.readings["power"].words == {"true": ("ON",), "false": ("OFF", "0")}


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"format":1', '"format":2', "format"),
        ('"format":1', '"format":"1"', "format"),
        ('"format":1', '"format":1,"run":"x"', "run"),
        ('"id":"thing"', '"id":"Thing"', "id"),
        ('"id":"thing"', '"id":"a/b"', "id"),
        ('"id":"thing"', '"id":"thing\\n"', "id"),
        ('"version":"1.0.0"', '"version":"1"', "version"),
        ('"title":"A thing"', '"title":"\\u001b[2J"', "title"),
        ('"transport":"hub"', '"transport":"dial"', "transport"),
        ('"kind":"boolean"', '"kind":true', "kind"),
        ('"kind":"boolean"', '"kind":"boolean","deadband":-1', "deadband"),
        ('"kind":"boolean"', '"kind":"boolean","min_interval":5', "min_interval"),
        ('"from":[{"topic":"a"}]', '"from":[]', "from"),
        ('"from":[{"topic":"a"}]', '"sources":[{"topic":"a"}]', "sources"),
        ('{"topic":"a"}', '{"topic":"a","script":"x"}', "script"),
        ('{"topic":"a"}', "{}", "topic"),
    ],
)
def test_what_is_not_of_the_shape_is_refused_by_its_place(old: str, new: str, place: str) -> None:
    assert old in SMALL

    with pytest.raises(ValidationError, match=place):
        DeviceProfile.model_validate_json(SMALL.replace(old, new))


def test_a_profile_cannot_be_changed() -> None:
    profile = DeviceProfile.model_validate_json(SMALL)

    with pytest.raises(ValidationError):
        profile.id = "other"  # type: ignore[misc]  # frozen, as the test says


def test_a_proof_of_a_command_is_told_by_its_kind() -> None:
    profile = next(load(text) for text in shipped_profiles() if b'id = "shelly-gen2"' in text)

    kinds = [type(proof) for proof in next(iter(profile.commands.values()))[0].confirm]

    assert kinds == [Reply, Reply, Echo]


def test_a_shipped_profile_is_well_within_the_size_of_one() -> None:
    assert max(len(text) for text in shipped_profiles()) < PROFILE_BYTES // 2
