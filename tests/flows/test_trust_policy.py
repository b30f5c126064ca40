"""The policy: who is believed, which version is in force, and what outlives a file."""

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from edgeagent.clock import ProvenClock
from edgeagent.contracts.policy import POLICY_TYPE
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import sign
from edgeagent.errors import StorageError
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import hub_id
from edgeagent.store import audit, policy
from edgeagent.store.database import Database
from tests.flows.building import surroundings
from tests.flows.policies import signed_policy
from tests.support.clocks import ManualReadings
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk, opened

pytestmark = pytest.mark.requirement("T2", "T1")

VENUE = MemoryKey()
"""The key whose policies count here."""


def trust_of(store: Database, *, signer: MemoryKey | None = VENUE) -> Trust:
    """What the hub believes at its start."""
    clock = ProvenClock(ManualReadings())
    settings = TrustSettings(signer=None if signer is None else signer.public)
    return Trust(store, clock, surroundings(clock), settings)


def altered(envelope: bytes) -> bytes:
    """An envelope whose payload was changed after it was signed."""
    fields = json.loads(envelope)
    payload = b64decode(fields["payload"]).replace(b'"version":9', b'"version":8')
    return json.dumps(fields | {"payload": b64encode(payload).decode()}).encode()


async def records(store: Database, kind: AuditKind) -> list[dict[str, object]]:
    """The details of the audit rows of a kind."""
    rows = await store.read(lambda db: audit.rows(db, after=0, most=100))
    return [json.loads(row.detail) for row, _ in rows if row.kind == kind]


async def test_a_policy_of_the_trusted_key_comes_into_force_and_is_stored(store: Database) -> None:
    trust, envelope = trust_of(store), signed_policy(VENUE, 3)
    told: list[str] = []
    trust.when_proven(lambda: told.append("surer"))

    await trust.load(envelope)

    assert trust.policy is not None
    assert trust.policy.version == 3
    assert trust.policy_problem == ""
    assert await store.read(policy.load) == envelope
    [record] = await records(store, AuditKind.POLICY_ACCEPTED)
    assert record["version"] == 3
    assert told == ["surer"]


async def test_a_later_version_takes_its_place(store: Database) -> None:
    trust = trust_of(store)
    await trust.load(signed_policy(VENUE, 3))

    accepted = await trust.offer_policy(signed_policy(VENUE, 4))

    assert accepted
    assert trust.policy is not None
    assert trust.policy.version == 4


@pytest.mark.parametrize(
    ("envelope", "word"),
    [
        pytest.param(signed_policy(MemoryKey(), 9), "no signature", id="another signer"),
        pytest.param(
            signed_policy(VENUE, 9, hubs=frozenset({hub_id("venue-8")})), "other hubs", id="another hub"
        ),
        pytest.param(signed_policy(VENUE, 2), "older", id="an older version"),
        pytest.param(
            signed_policy(VENUE, 3), "another policy of version 3", id="another of the same version"
        ),
        pytest.param(sign(b"{}", POLICY_TYPE, [VENUE]), "version", id="signed, and no policy"),
        pytest.param(sign(b"{}", "application/json", [VENUE]), "another kind", id="signed as something else"),
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(signed_policy(VENUE, 9)[:-40], "not JSON", id="cut off"),
        pytest.param(b"x" * 300_000, "bytes", id="too large"),
        pytest.param(b"\xff\xfe", "UTF-8", id="no text"),
        pytest.param(altered(signed_policy(VENUE, 9)), "no signature", id="altered"),
    ],
)
async def test_a_policy_that_does_not_count_is_refused_and_the_one_in_force_stays(
    store: Database, envelope: bytes, word: str
) -> None:
    trust, kept = trust_of(store), signed_policy(VENUE, 3)
    await trust.load(kept)
    before = trust.policy

    accepted = await trust.offer_policy(envelope)

    assert not accepted
    assert word in trust.policy_problem
    assert trust.policy == before
    assert await store.read(policy.load) == kept
    [record] = await records(store, AuditKind.POLICY_REFUSED)
    assert record == {"why": trust.policy_problem}


async def test_the_same_policy_signed_anew_is_no_change(store: Database) -> None:
    trust, envelope = trust_of(store), signed_policy(VENUE, 3)
    await trust.load(envelope)

    again = await trust.offer_policy(envelope + b"\n")

    assert again
    assert trust.policy_problem == ""


class TestAfterARestart:
    """The hub judges from its store, whatever has become of the file (DESIGN decision 6)."""

    @pytest.mark.parametrize(
        "file",
        [
            pytest.param(None, id="lost"),
            pytest.param(signed_policy(VENUE, 5)[:100], id="cut off"),
            pytest.param(signed_policy(VENUE, 4), id="rolled back"),
            pytest.param(signed_policy(MemoryKey(), 6), id="of somebody else"),
        ],
    )
    async def test_the_stored_policy_is_in_force(self, store: Database, file: bytes | None) -> None:
        await trust_of(store).load(signed_policy(VENUE, 5))

        trust = trust_of(store)
        await trust.load(file)

        assert trust.policy is not None
        assert trust.policy.version == 5
        assert bool(trust.policy_problem) == (file is not None)

    async def test_the_file_that_is_stored_already_is_not_accepted_again(self, store: Database) -> None:
        envelope = signed_policy(VENUE, 5)
        await trust_of(store).load(envelope)

        await trust_of(store).load(envelope)

        assert len(await records(store, AuditKind.POLICY_ACCEPTED)) == 1

    async def test_the_policy_of_a_key_that_is_trusted_no_more_is_not_in_force(self, store: Database) -> None:
        await trust_of(store).load(signed_policy(VENUE, 5))

        trust = trust_of(store, signer=MemoryKey())
        await trust.load(None)

        assert trust.policy is None
        assert "the stored policy" in trust.policy_problem

    async def test_another_signer_begins_above_the_version_that_was_in_force(self, store: Database) -> None:
        """A version that was ever accepted is never gone below, whoever signs."""
        await trust_of(store).load(signed_policy(VENUE, 5))
        other = MemoryKey()

        low = trust_of(store, signer=other)
        await low.load(signed_policy(other, 1))
        high = trust_of(store, signer=other)
        await high.load(signed_policy(other, 6))

        assert low.policy is None
        assert "a higher one" in low.policy_problem
        assert high.policy is not None
        assert high.policy.version == 6


class TestWithoutAPolicy:
    """The hub takes readings and no commands, and says why."""

    async def test_none_is_configured(self, store: Database) -> None:
        trust = trust_of(store, signer=None)
        await trust.load(None)

        assert trust.policy is None
        assert trust.policy_problem == "no policy is configured"

    async def test_one_is_configured_and_its_file_cannot_be_read(self, store: Database) -> None:
        trust = trust_of(store)
        await trust.load(None)

        assert trust.policy is None
        assert "cannot be read" in trust.policy_problem

    async def test_one_is_offered_though_nobody_is_trusted(self, store: Database) -> None:
        trust = trust_of(store, signer=None)

        accepted = await trust.offer_policy(signed_policy(VENUE, 1))

        assert not accepted
        assert trust.policy is None


@pytest.mark.requirement("R2")
async def test_a_policy_that_the_disk_does_not_take_is_not_in_force(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    async with opened(path) as store:
        trust = trust_of(store)
        await trust.load(signed_policy(VENUE, 3))

        with full_disk(path), pytest.raises(StorageError):
            await trust.offer_policy(signed_policy(VENUE, 4))

        assert trust.policy is not None
        assert trust.policy.version == 3


@pytest.mark.requirement("T8")
async def test_after_the_database_was_lost_an_older_policy_than_the_last_is_refused(store: Database) -> None:
    """Whoever deletes the database must not bring back the keys that a later policy has taken away."""
    trust = trust_of(store)
    trust.least_version = 5

    await trust.load(signed_policy(VENUE, 4))

    assert trust.policy is None
    assert "was in force before the database was lost" in trust.policy_problem
    assert await store.read(policy.load) is None
    assert await trust.offer_policy(signed_policy(VENUE, 5))
