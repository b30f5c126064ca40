"""Who becomes a hub, who stays one, and who does not, against the real server over TLS (SPEC H5, W2)."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeagent.adapters.cloud.enrolling import RefusedEnrolmentError, fetch_authority
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.identity_wire import AuthorityAnswer
from edgeagent.contracts.claim import Claim
from edgeagent.contracts.door import encode
from edgeagent.core.certificates import check_hub_chain, hub_of, pem_of, read_chain, serial_text
from edgeagent.ids import hub_id
from edgeagent.issuer.client import RefusedByQueueError
from edgeagent.issuer.settings import Limits
from edgeagent.ports.identity import NotRenewedError
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store.identity import IdentitySlots
from tests.issuer.building import batch, hello, real_clock, records
from tests.support.enrolled import PASSPHRASE, Office, enrolling
from tests.support.queue_server import QueueServer

pytestmark = pytest.mark.requirement("H5")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with enrolling(tmp_path_factory.mktemp("office")) as open_office:
        yield open_office


@asynccontextmanager
async def answering_in_pieces(body: bytes) -> AsyncIterator[str]:
    """A server that sends the second half of its answer later, unless nobody waits for it: its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        half = len(body) // 2
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body[:half]))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read()  # until the other side hangs up
        writer.write(body[half:])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def lets_in(office: Office, slots: IdentitySlots) -> bool:
    """Whether the queue takes events of the hub that shows this identity."""
    hub = slots.load().hub
    queue = HttpsQueue(office.settings(slots), hub, real_clock())
    try:
        await queue.upload(batch(hub, [hello()]))
    except LinkError as why:
        if why.trouble is not Trouble.LOGIN:
            raise
        return False
    finally:
        await queue.close()
    return True


async def leases(office: Office, slots: IdentitySlots) -> Trouble | None:
    """What becomes of a long wait for commands."""
    queue = HttpsQueue(office.settings(slots), slots.load().hub, real_clock())
    try:
        await queue.lease(most=1, wait=timedelta(seconds=30), hold=timedelta(seconds=1))
    except LinkError as why:
        return why.trouble
    finally:
        await queue.close()
    return None


async def renewed(office: Office, slots: IdentitySlots) -> Path:
    """The slot with the next certificate, which is not shown yet."""
    request = slots.request(slots.load().hub)
    chain = await office.registry(slots).renew(request.public_bytes(Encoding.DER))
    return slots.put(read_chain(chain)).file


async def test_an_authority_that_comes_in_pieces_is_taken_whole(office: Office) -> None:
    claim = office.code("venue-9")
    answer = encode(AuthorityAnswer(root=pem_of([office.root]).decode()))

    async with answering_in_pieces(answer) as address:
        slow = Claim(claim.facts.model_copy(update={"cloud": address}), claim.secret)

        assert await fetch_authority(slow) == office.root


async def test_a_code_makes_a_hub_that_is_let_in_by_its_certificate(office: Office, tmp_path: Path) -> None:
    claim = await office.claims("venue-1")

    slots = await office.enrols(claim, tmp_path)

    identity = slots.load()
    check_hub_chain(read_chain(identity.file.read_bytes()), office.root, hub_id("venue-1"), datetime.now(UTC))
    assert await lets_in(office, slots)
    shown = await office.registry(slots).shown(slots.current)
    assert (shown.hub, shown.serial, shown.counts) == ("venue-1", serial_text(identity.certificate), True)
    async with office.issuer() as issuer:
        [told] = [one for one in await issuer.claims() if one.hub == "venue-1"]
        assert (told.state, told.serial, told.by) == ("used", shown.serial, "desk")
        assert (await issuer.hub(hub_id("venue-1"))).epoch is not None
    assert claim.secret.hex() not in office.server.log


async def test_a_hub_opens_its_own_paths_only_and_without_its_certificate_none(
    office: Office, tmp_path: Path
) -> None:
    slots = await office.enrols(await office.claims("venue-2"), tmp_path)

    queue = HttpsQueue(office.settings(slots), hub_id("venue-1"), real_clock())
    stranger = HttpsQueue(office.settings(), hub_id("venue-2"), real_clock())
    for end in (queue, stranger):
        with pytest.raises(LinkError) as refused:
            await end.upload(records(hub_id("venue-1"), 1))
        await end.close()
        assert refused.value.trouble is Trouble.LOGIN
    with pytest.raises(LinkError):
        await office.registry().shown(office.folder.server[0])


async def test_the_same_request_gets_the_same_certificate_and_another_key_none(
    office: Office, tmp_path: Path
) -> None:
    claim, slots = await office.claims("venue-3"), IdentitySlots(tmp_path / "a")
    registry = office.registry()

    first = await registry.enrol(claim, slots.request(claim.facts.hub))
    again = await registry.enrol(claim, slots.request(claim.facts.hub))
    with pytest.raises(RefusedEnrolmentError) as refused:
        await registry.enrol(claim, IdentitySlots(tmp_path / "b").request(claim.facts.hub))

    assert first == again
    assert refused.value.reason == "claim_used"
    slots.show(slots.put(read_chain(first)).file)
    assert await lets_in(office, slots)


async def test_two_that_come_at_once_with_one_code_are_not_both_enrolled(
    office: Office, tmp_path: Path
) -> None:
    claim = await office.claims("venue-4")
    requests = [IdentitySlots(tmp_path / name).request(claim.facts.hub) for name in "abcd"]

    came = await asyncio.gather(
        *(office.registry().enrol(claim, request) for request in requests), return_exceptions=True
    )

    assert len([one for one in came if isinstance(one, bytes)]) == 1
    assert [one.reason for one in came if isinstance(one, RefusedEnrolmentError)] == ["claim_used"] * 3


async def test_a_code_that_is_over_taken_back_or_replaced_enrols_nobody(
    office: Office, tmp_path: Path
) -> None:
    late = office.code("venue-5", valid=timedelta(seconds=-5))
    replaced, revoked = await office.claims("venue-5"), await office.claims("venue-5")
    async with office.issuer() as issuer:
        with pytest.raises(RefusedByQueueError) as too_late:
            await issuer.claim(late)
        assert await issuer.revoke_claim(hub_id("venue-5")) == 1
        assert await issuer.revoke_claim(hub_id("venue-5")) == 0
    slots = IdentitySlots(tmp_path)

    reasons = []
    for claim in (replaced, revoked):
        with pytest.raises(RefusedEnrolmentError) as refused:
            await office.registry().enrol(claim, slots.request(claim.facts.hub))
        reasons.append(refused.value.reason)

    assert too_late.value.reason == "claim_over"
    assert reasons == ["claim_over", "claim_over"]
    async with office.issuer() as issuer:
        assert {one.state for one in await issuer.claims() if one.hub == "venue-5"} == {"revoked"}


async def test_a_renewed_certificate_counts_the_one_before_it_still_does_and_the_one_before_that_not(
    office: Office, tmp_path: Path
) -> None:
    slots = await office.enrols(await office.claims("venue-6"), tmp_path)
    registry = office.registry(slots)
    assert await lets_in(office, slots)

    first = slots.load().file
    second = await renewed(office, slots)
    again = await renewed(office, slots)
    assert again == second
    assert await lets_in(office, slots), "what was never shown takes nothing away"
    assert (await registry.shown(second)).counts
    assert await lets_in(office, slots), "a death between trying and putting it in its place harms nothing"

    with pytest.raises(NotRenewedError) as two_machines:
        await registry.renew(
            IdentitySlots(tmp_path / "copy").request(slots.load().hub).public_bytes(Encoding.DER)
        )
    assert two_machines.value.why == "replaced"
    kept = first.read_bytes()
    slots.show(second)
    third = await renewed(office, slots)
    assert third == first
    assert (await registry.shown(third)).counts
    first.write_bytes(kept)
    assert (await registry.shown(first)).why == "replaced"
    assert await lets_in(office, slots)


async def test_a_new_code_for_a_hub_and_revoking_it_shut_its_earlier_certificates_out(
    office: Office, tmp_path: Path
) -> None:
    slots = await office.enrols(await office.claims("venue-7"), tmp_path / "old")
    assert await lets_in(office, slots)

    anew = await office.enrols(await office.claims("venue-7"), tmp_path / "new")

    assert not await lets_in(office, slots)
    assert await lets_in(office, anew)
    async with office.issuer() as issuer:
        waiting = await office.claims("venue-7")
        lease = asyncio.create_task(leases(office, anew))
        assert await issuer.revoke(hub_id("venue-7")) == 1
    # Also whoever waits for commands by then, and was let in when it began.
    assert await lease is Trouble.LOGIN
    assert not await lets_in(office, anew)
    assert (await office.registry(anew).shown(anew.current)).why == "revoked"
    with pytest.raises(NotRenewedError) as shut_out:
        await renewed(office, anew)
    with pytest.raises(RefusedEnrolmentError):
        await office.registry().enrol(waiting, anew.request(waiting.facts.hub))
    assert shut_out.value.why == "revoked"


async def test_what_was_given_and_taken_back_outlives_a_kill_of_the_server(tmp_path: Path) -> None:
    with enrolling(tmp_path) as office:
        slots = await office.enrols(await office.claims("venue-7"), tmp_path / "a")
        gone = await office.enrols(await office.claims("venue-8"), tmp_path / "b")
        async with office.issuer() as issuer:
            await issuer.revoke(hub_id("venue-8"))
        waiting = await office.claims("venue-9")
        office.server.kill()
        office.server.start()

        assert await lets_in(office, slots)
        assert not await lets_in(office, gone)
        assert hub_of((await office.enrols(waiting, tmp_path / "c")).load().certificate) == "venue-9"


async def test_a_certificate_that_is_over_opens_nothing_but_renews_itself_within_the_grace(
    tmp_path: Path,
) -> None:
    over = Limits(certificate_lifetime=timedelta(minutes=-10))
    with enrolling(tmp_path / "kind", limits=over) as office:
        slots = await office.enrols(await office.claims("venue-7"), tmp_path / "a")
        assert not await lets_in(office, slots)
        assert (await office.registry(slots).shown(slots.current)).why == "over"
        assert hub_of(slots.read(await renewed(office, slots)).certificate) == "venue-7"
    strict = Limits(certificate_lifetime=timedelta(minutes=-10), renewal_grace=timedelta(minutes=5))
    with enrolling(tmp_path / "strict", limits=strict) as office:
        slots = await office.enrols(await office.claims("venue-7"), tmp_path / "b")
        with pytest.raises(NotRenewedError) as refused:
            await renewed(office, slots)
    assert refused.value.why == "over"


@pytest.mark.requirement("R7")
async def test_whoever_tries_codes_that_are_none_is_asked_to_wait_and_a_good_one_has_its_turn_later(
    tmp_path: Path,
) -> None:
    with enrolling(tmp_path) as office:
        slots = IdentitySlots(tmp_path / "identity")
        request = slots.request(hub_id("venue-7"))
        reasons = []
        for _ in range(5):
            with pytest.raises(RefusedEnrolmentError) as unknown:
                await office.registry().enrol(office.code(), request)
            reasons.append(unknown.value.reason)
        claim = await office.claims()

        with pytest.raises(LinkError) as slowed:
            await office.registry().enrol(claim, request)

        assert reasons == ["claim_unknown"] * 5
        assert slowed.value.trouble is Trouble.BUSY
        assert timedelta(0) < (slowed.value.retry_after or timedelta(0)) <= timedelta(minutes=1)
        async with office.issuer() as issuer:
            [told] = await issuer.claims()
        assert told.state == "waiting", "it is as good as before"


async def test_a_queue_that_has_lost_its_database_tells_a_hub_so(tmp_path: Path) -> None:
    with enrolling(tmp_path) as office:
        slots = await office.enrols(await office.claims("venue-7"), tmp_path / "a")
        office.server.kill()
        for file in office.server.database.parent.glob("queue.db*"):
            file.unlink()
        office.server.start()

        assert not await lets_in(office, slots)
        told = await office.registry(slots).shown(slots.current)
        with pytest.raises(NotRenewedError):
            await renewed(office, slots)
        assert (told.hub, told.counts, told.why) == ("venue-7", False, "unknown")
        assert await lets_in(office, await office.enrols(await office.claims("venue-7"), tmp_path / "a"))


@pytest.mark.requirement("W2")
@pytest.mark.threat("T26")
async def test_hubs_come_over_to_another_issuing_key_and_believe_who_has_the_earlier_one_no_more(
    tmp_path: Path,
) -> None:
    with enrolling(tmp_path) as office:
        thief = tmp_path / "thief"
        shutil.copytree(office.folder.path, thief)
        first = await office.enrols(await office.claims("venue-1"), tmp_path / "a")
        second = await office.enrols(await office.claims("venue-2"), tmp_path / "b")
        registry, before = office.registry(first), first.load()
        assert not (await registry.shown(first.current)).is_to_renew

        made = office.folder.rotate(datetime.now(UTC), passphrase=PASSPHRASE)

        # Both are let in and asked to renew, by the queue that runs on.
        assert await lets_in(office, first)
        assert await lets_in(office, second)
        assert (await registry.shown(first.current)).is_to_renew
        first.show(await renewed(office, first))
        told = await registry.shown(first.current)
        assert (told.counts, told.is_to_renew) == (True, False)
        assert read_chain(first.load().file.read_bytes())[1] == made.issuing
        assert first.load().certificate != before.certificate
        assert await lets_in(office, second)
        claim = await office.claims("venue-3")
        late = await office.enrols(claim, tmp_path / "c")
        assert read_chain(late.load().file.read_bytes())[1] == made.issuing
        # The queue's own chain has followed before: its hubs would not come in otherwise.
        assert await trouble_of(office, first) is None

    # With the earlier key somebody passes for the queue.
    with QueueServer(tmp_path / "thief-queue", authority=thief) as theirs:
        false_office = replace(office, server=theirs)
        assert await trouble_of(false_office, first) is Trouble.TLS
        assert await trouble_of(false_office, late) is Trouble.TLS
        # Who has not come over yet cannot know.
        assert await trouble_of(false_office, second) is Trouble.LOGIN


async def trouble_of(office: Office, slots: IdentitySlots) -> Trouble | None:
    """What keeps a hub from a queue; None where nothing does."""
    queue = HttpsQueue(office.settings(slots), slots.load().hub, real_clock())
    try:
        await queue.lease(most=1, wait=timedelta(0), hold=timedelta(seconds=1))
    except LinkError as why:
        return why.trouble
    finally:
        await queue.close()
    return None


@pytest.mark.requirement("W2")
async def test_a_certificate_that_a_thief_gives_the_number_of_a_hubs_opens_nothing(
    office: Office, tmp_path: Path
) -> None:
    slots = await office.enrols(await office.claims("venue-8"), tmp_path / "right")
    authority, right, key = (
        office.folder.load(),
        slots.load().certificate,
        ec.generate_private_key(ec.SECP256R1()),
    )
    forged = x509.CertificateBuilder(
        right.issuer,
        right.subject,
        key.public_key(),
        right.serial_number,
        right.not_valid_before_utc,
        right.not_valid_after_utc,
        list(right.extensions),
    ).sign(authority.key, hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    slots.current.write_bytes(pem + pem_of([forged, authority.issuing]))

    told = await office.registry(slots).shown(slots.current)

    assert (told.counts, told.why) == (False, "unknown")
    assert await trouble_of(office, slots) is Trouble.LOGIN
    with pytest.raises(NotRenewedError):
        await renewed(office, slots)
