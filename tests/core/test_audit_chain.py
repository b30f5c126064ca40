"""The audit trail's chain: whatever is done to a row shows."""

import json
import shutil
import subprocess
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue

from edgeagent.core.audit_chain import (
    GENESIS,
    AuditKind,
    AuditRow,
    Break,
    detail_text,
    first_break,
    next_hash,
    row_bytes,
)

pytestmark = pytest.mark.requirement("A3")

Chain = list[tuple[AuditRow, bytes]]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values: st.SearchStrategy[JsonValue] = texts | st.integers() | st.booleans()
details = st.dictionaries(texts, values, max_size=3).map(detail_text)
kinds = st.sampled_from(AuditKind)
acts = st.lists(st.tuples(kinds, texts, texts, details), min_size=2, max_size=8)


def chain_of(told: list[tuple[AuditKind, str, str, str]]) -> Chain:
    """A trail of these acts."""
    chain: Chain = []
    last = GENESIS
    for number, (kind, subject, actor, detail) in enumerate(told, start=1):
        row = AuditRow(
            number=number,
            at="2027-03-01T12:00:00Z",
            clock="kernel",
            kind=kind,
            subject=subject,
            actor=actor,
            detail=detail,
        )
        last = next_hash(last, row)
        chain.append((row, last))
    return chain


@given(told=acts)
def test_an_untouched_trail_holds(told: list[tuple[AuditKind, str, str, str]]) -> None:
    assert first_break(chain_of(told)) is None


@given(told=acts, data=st.data())
def test_any_edited_field_of_any_row_is_found(
    told: list[tuple[AuditKind, str, str, str]], data: st.DataObject
) -> None:
    chain = chain_of(told)
    place = data.draw(st.integers(0, len(chain) - 1))
    field = data.draw(st.sampled_from(["at", "clock", "kind", "subject", "actor", "detail"]))
    row, stored = chain[place]
    text = data.draw(texts)
    assume(text != asdict(row)[field])
    chain[place] = AuditRow(**{**asdict(row), field: text}), stored

    found = first_break(chain)

    assert found == Break(place + 1, "its hash does not fit its content and its predecessor")


@given(told=acts, data=st.data())
def test_an_edited_row_with_a_hash_to_match_is_found_at_the_next_one(
    told: list[tuple[AuditKind, str, str, str]], data: st.DataObject
) -> None:
    chain = chain_of(told)
    place = data.draw(st.integers(0, len(chain) - 2))
    row = replace(chain[place][0], subject=chain[place][0].subject + "!")
    previous = chain[place - 1][1] if place else GENESIS
    chain[place] = row, next_hash(previous, row)

    found = first_break(chain)

    assert found is not None
    assert found.number == place + 2


@given(told=acts, data=st.data())
def test_a_removed_row_is_found(told: list[tuple[AuditKind, str, str, str]], data: st.DataObject) -> None:
    """All but the last: that the end is cut shows by the head, which rides in uploads."""
    chain = chain_of(told)
    place = data.draw(st.integers(0, len(chain) - 2))
    del chain[place]

    found = first_break(chain)

    assert found == Break(place + 1, f"row {place + 1} is missing, row {place + 2} follows")


@given(told=acts, data=st.data())
def test_a_removed_row_is_found_even_if_the_others_move_up(
    told: list[tuple[AuditKind, str, str, str]], data: st.DataObject
) -> None:
    chain = chain_of(told)
    place = data.draw(st.integers(0, len(chain) - 2))
    del chain[place]
    chain = [(replace(row, number=number), stored) for number, (row, stored) in enumerate(chain, start=1)]

    found = first_break(chain)

    assert found is not None
    assert found.number == place + 1


@given(told=acts, data=st.data())
def test_two_swapped_rows_are_found(told: list[tuple[AuditKind, str, str, str]], data: st.DataObject) -> None:
    chain = chain_of(told)
    left = data.draw(st.integers(0, len(chain) - 2))
    right = data.draw(st.integers(left + 1, len(chain) - 1))
    swapped = list(chain)
    swapped[left], swapped[right] = chain[right], chain[left]
    renumbered = [(replace(row, number=n), stored) for n, (row, stored) in enumerate(swapped, start=1)]

    assert first_break(swapped) == Break(left + 1, f"row {left + 1} is missing, row {right + 1} follows")
    assert first_break(renumbered) == Break(left + 1, "its hash does not fit its content and its predecessor")


@given(told=acts, data=st.data())
def test_an_inserted_row_is_found(told: list[tuple[AuditKind, str, str, str]], data: st.DataObject) -> None:
    chain = chain_of(told)
    place = data.draw(st.integers(0, len(chain) - 1))
    chain.insert(place, chain[data.draw(st.integers(0, len(chain) - 1))])

    assert first_break(chain) is not None


@given(told=acts, cut=st.integers(1, 7))
def test_a_trail_is_followed_in_parts_as_well_as_whole(
    told: list[tuple[AuditKind, str, str, str]], cut: int
) -> None:
    chain = chain_of(told)
    head, tail = chain[:cut], chain[cut:]
    row, stored = head[-1]

    assert first_break(head) is None
    assert first_break(tail, after=row.number, previous=stored) is None
    if tail:
        assert first_break(tail, after=row.number, previous=bytes(32)) is not None
        assert first_break(tail) == Break(1, f"row 1 is missing, row {row.number + 1} follows")


def test_no_two_rows_have_the_same_bytes_although_their_fields_run_together() -> None:
    (row, _), *_ = chain_of([(AuditKind.STARTED, "ab", "c", "{}"), (AuditKind.STOPPED, "", "", "{}")])

    assert row_bytes(row) != row_bytes(replace(row, subject="a", actor="bc"))
    assert row_bytes(row) != row_bytes(replace(row, subject='ab","c', actor=""))


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_and_sha256sum_follow_the_chain_without_us(tmp_path: Path) -> None:
    chain = chain_of(
        [
            (
                AuditKind.STARTED,
                "hub-1",
                "agent",
                detail_text({"boot": 'Küche \u2028 🙂 \\ " / \n \x1f \x7f'}),
            ),
            (AuditKind.STOPPED, "hub-1", "agent", "{}"),
        ]
    )
    last = GENESIS
    for row, stored in chain:
        fields = [row.number, row.at, row.clock, row.kind, row.subject, row.actor, row.detail]
        text = subprocess.run(
            ["jq", "-cj", "."], input=json.dumps(fields).encode(), capture_output=True, check=True
        ).stdout
        link = tmp_path / "link"
        link.write_bytes(last + text)
        said = subprocess.run(["sha256sum", link], capture_output=True, check=True).stdout

        assert said.split()[0].decode() == stored.hex()
        last = stored


def test_the_first_row_builds_on_nothing_but_zeros() -> None:
    ((row, stored),) = chain_of([(AuditKind.STARTED, "hub-1", "agent", "{}")])

    assert stored == sha256(bytes(32) + row_bytes(row)).digest()
