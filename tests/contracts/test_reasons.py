"""Reason codes: each is a word for machines and a sentence for people."""

import re
from pathlib import Path

import pytest

from edgeagent.contracts.reasons import Reason

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.requirement("T9")

each_reason = pytest.mark.parametrize("reason", Reason, ids=str)


@each_reason
def test_a_reason_is_one_word_and_one_sentence(reason: Reason) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{2,31}", reason)
    assert re.fullmatch(r"[A-Z][^\n]{10,120}\.", reason.sentence)


@each_reason
def test_a_reason_is_found_by_its_code(reason: Reason) -> None:
    assert Reason(reason.value) is reason
    assert str(reason) == reason.value == reason.name.lower()


def test_no_two_reasons_mean_the_same() -> None:
    assert len({reason.sentence for reason in Reason}) == len(Reason)


def test_the_documentation_lists_every_reason() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in sorted(DOCS.glob("**/*.md")))
    if "too_large" not in pages:
        pytest.skip("no page of docs/ lists the reasons yet")

    missing = [reason for reason in Reason if f"`{reason}`" not in pages]

    assert not missing
