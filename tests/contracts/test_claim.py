"""A claim code survives a letter, a chat and a telephone; what does not survive is told (SPEC H5)."""

import re
import string
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from edgeagent.contracts.claim import CLAIM_CHARACTERS, Claim, ClaimFacts, claim_text, read_claim
from edgeagent.errors import MalformedError
from edgeagent.ids import HubId

pytestmark = pytest.mark.requirement("H5")

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


def claim(
    *,
    cloud: str = "https://queue.example",
    policy: str = "https://queue.example/v1/policy",
    hub: str = "venue-7",
    zone: str = "Europe/Berlin",
    until: datetime = datetime(2027, 1, 1, tzinfo=UTC),
    secret: bytes = bytes(range(16)),
) -> Claim:
    facts = {
        "cloud": cloud,
        "policy": policy,
        "authority": sha256(b"root certificate").hexdigest(),
        "root": sha256(b"first root").hexdigest(),
        "hub": hub,
        "zone": zone,
        "until": until,
    }
    return Claim(ClaimFacts.model_validate(facts), secret)


def test_the_code_of_the_page_can_be_made_again_and_read() -> None:
    found = re.search(r"<!-- claim code -->\n```text\n(.*?)\n```", PAGE.read_text("utf-8"), re.DOTALL)

    assert found is not None
    assert found[1] == claim_text(claim())
    assert read_claim(found[1]) == claim()


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(str.lower, id="small letters"),
        pytest.param(lambda text: text.replace("-", ""), id="in one"),
        pytest.param(lambda text: "\r\n".join(text[n : n + 30] for n in range(0, len(text), 30)), id="lines"),
        pytest.param(lambda text: f"  {text.replace('-', ' - ')}\t\n", id="blanks"),
        pytest.param(lambda text: text[:4] + text[4:].replace("O", "0").replace("I", "1"), id="misread"),
    ],
)
def test_how_it_is_written_does_not_count(written: Callable[[str], str]) -> None:
    assert read_claim(written(claim_text(claim()))) == claim()


@given(
    hub=st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=64),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12"]),
    policy=st.sampled_from(["https://queue.example/v1/policy", "https://files.example/p"]),
    secret=st.binary(min_size=16, max_size=16),
    seconds=st.integers(0, 2**32 - 1),
)
def test_whatever_it_says_is_read_as_it_was_meant(
    hub: str, zone: str, policy: str, secret: bytes, seconds: int
) -> None:
    meant = claim(
        hub=hub, zone=zone, policy=policy, secret=secret, until=datetime.fromtimestamp(seconds, UTC)
    )

    assert read_claim(claim_text(meant)) == meant


@given(place=st.integers(4, 242), letter=st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_one_wrong_letter_is_always_told(place: int, letter: str) -> None:
    text = claim_text(claim())
    if text[place] in {letter, "-"}:
        return

    with pytest.raises(MalformedError, match=r"mistyped|cut"):
        read_claim(text[:place] + letter + text[place + 1 :])


@given(st.text(max_size=400))
def test_any_text_is_a_code_or_told_to_be_none(text: str) -> None:
    for tried in (text, f"EA1-{text}"):
        with pytest.raises(MalformedError):
            read_claim(tried)


def test_a_text_without_end_is_not_looked_at() -> None:
    with pytest.raises(MalformedError, match="longer"):
        read_claim("EA1-" + "A" * CLAIM_CHARACTERS)


@pytest.mark.parametrize("cloud", ["http://queue.example", "queue.example", "https://", "https://a b"])
def test_a_code_leads_to_https_and_nowhere_else(cloud: str) -> None:
    with pytest.raises(ValidationError):
        claim(cloud=cloud)


@pytest.mark.requirement("A2")
def test_its_secret_is_not_shown() -> None:
    made = claim()

    assert made.secret.hex() not in repr(made)
    assert repr(made.secret) not in repr(made)
    assert made.facts.hub == HubId("venue-7")
