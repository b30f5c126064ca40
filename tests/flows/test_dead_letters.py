"""Dead letters: what becomes one, and what people do with them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command, Precondition
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import BreakerRule, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.dead_letters import (
    DealtReport,
    DiscardRequest,
    LetterReport,
    LettersWanted,
    ReplayRequest,
)
from edgeagent.contracts.reports.switch import SwitchRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError
from edgeagent.store import dead_letters
from edgeagent.store.database import Transaction
from edgeagent.store.dead_letters import MOST_ANSWERED
from tests.flows.approvals import acted
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, OTHER_TV, POWER, TV, VOLUME

pytestmark = pytest.mark.requirement("D1", "D2", "D3")

ROOT = "uid:0 root"
RULE = BreakerRule(dead_letters=2)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


async def letters(hub: Hub) -> list[LetterReport]:
    """Those that wait."""
    return (await hub.now.letters.letters(LettersWanted())).letters


async def replays(hub: Hub, number: int = 1, *, dry_run: bool = False) -> DealtReport:
    """Have one run again."""
    wanted = LettersWanted(number=number)
    [dealt] = (await hub.now.letters.replay(ReplayRequest(wanted=wanted, dry_run=dry_run), ROOT)).letters
    return dealt


async def off_the_whitelist(hub: Hub, version: int = 2, **changes: object) -> Command:
    """A command that was accepted, and turns out at the worker to be banned."""
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    roles = hub.keys.policy().roles
    narrow = roles["operators"].model_copy(update={"devices": frozenset({"tv-2"})})
    await hub.has_policy(version=version, roles=roles | {"operators": narrow}, **changes)
    await hub.works_all()
    return command


@pytest.mark.requirement("B5", "E1")
async def test_what_turns_out_off_the_whitelist_at_the_worker_is_tried_once_and_kept(hub: Hub) -> None:
    command = await off_the_whitelist(hub)

    [letter] = await letters(hub)
    assert (letter.command, letter.device, letter.outcome) == (command.id, TV, Outcome.REFUSED)
    assert (letter.reason, letter.blame, letter.attempts) == (Reason.NOT_ALLOWED, "permanent", 0)
    assert letter.fence == 1
    assert letter.worker
    assert acted(hub) == 0
    [settled] = await hub.audited(AuditKind.COMMAND_SETTLED)
    assert (settled["dead_letter"], settled["blame"]) == (1, "permanent")


@pytest.mark.requirement("B5")
async def test_equal_ones_over_the_threshold_open_the_breaker_of_their_type(hub: Hub) -> None:
    await off_the_whitelist(hub, 2, breaker=RULE)
    await hub.has_policy(version=3, breaker=RULE)
    await off_the_whitelist(hub, 4, breaker=RULE)

    [opened] = await hub.audited(AuditKind.BREAKER_OPENED)
    assert (opened["subject"], opened["signal"]) == (POWER, "buried")


async def test_what_is_refused_on_arrival_is_its_senders_to_put_right(hub: Hub) -> None:
    await hub.admits(hub.command(VOLUME, level=9999))

    assert await letters(hub) == []


async def test_a_conflict_of_ids_is_kept_and_cannot_run(hub: Hub) -> None:
    await hub.admits(hub.command(POWER, id_="c-1", on=True))
    await hub.admits(hub.command(POWER, id_="c-1", on=False))

    [letter] = await letters(hub)
    dealt = await replays(hub, letter.number)

    assert (letter.reason, letter.blame) == (Reason.ID_CONFLICT, "suspicious")
    assert (dealt.done, dealt.reason) == ("refused", Reason.ID_CONFLICT)


async def test_a_replay_is_a_new_run_of_the_same_command_with_fresh_attempts(hub: Hub) -> None:
    command = await off_the_whitelist(hub)
    await hub.has_policy(version=3)

    would = await replays(hub, dry_run=True)
    assert hub.rows("SELECT count(*) FROM inbox") == [(1,)]
    dealt = await replays(hub)
    await hub.works_all()

    assert (would.done, would.run) == ("queued", None)
    assert (dealt.done, dealt.run) == ("queued", 2)
    assert hub.rows("SELECT command, ordinal, replay_of, attempts, state FROM inbox WHERE run = 2") == [
        (command.id, 2, 1, 1, "succeeded")
    ]
    assert await letters(hub) == []
    with pytest.raises(RejectedError, match="waits"):
        await replays(hub)
    [act] = await hub.audited(AuditKind.DEAD_LETTER_REPLAYED)
    assert (act["actor"], act["said"], act["run"]) == (ROOT, "queued", 2)


async def test_a_filter_replays_what_it_names_in_their_order_and_nothing_else(hub: Hub) -> None:
    """The later of two supersedes the earlier, as if both came now; a third one is not named."""
    earlier = await off_the_whitelist(hub)
    await hub.has_policy(version=3)
    later = await off_the_whitelist(hub, version=4)
    await hub.has_policy(version=5)
    await hub.admits(hub.command(VOLUME, id_="c-1", level=1), hub.command(VOLUME, id_="c-1", level=2))
    wanted = LettersWanted(reason=Reason.NOT_ALLOWED)

    dry = (await hub.now.letters.replay(ReplayRequest(wanted=wanted, dry_run=True), ROOT)).letters
    runs = hub.rows("SELECT count(*) FROM inbox")
    wet = (await hub.now.letters.replay(ReplayRequest(wanted=wanted), ROOT)).letters
    await hub.works_all()

    assert runs == [(3,)]
    for dealt in (dry, wet):
        assert [each.done for each in dealt] == ["queued", "queued"]
    assert [letter.command for letter in await letters(hub)] == ["c-1"]
    ran = hub.rows("SELECT command, state FROM inbox WHERE ordinal = 2 ORDER BY run")
    assert ran == [(earlier.id, "superseded"), (later.id, "succeeded")]


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("why", [Reason.EXPIRED, Reason.SUPERSEDED, Reason.NOT_ALLOWED, Reason.BAD_SIGNATURE])
async def test_what_the_gate_refuses_now_does_not_run_again(hub: Hub, why: Reason) -> None:
    await off_the_whitelist(hub)
    if why is not Reason.NOT_ALLOWED:
        await hub.has_policy(version=3)
    match why:
        case Reason.EXPIRED:
            hub.passes(6 * MINUTE)
        case Reason.SUPERSEDED:
            await hub.admits(hub.command(POWER, on=False))
        case Reason.BAD_SIGNATURE:
            keys = {"desk": hub.keys.stranger.public.hex(), "night": hub.keys.night.public.hex()}
            roles = {"operators": hub.keys.policy().roles["operators"]}
            await hub.has_policy(version=4, keys=keys, roles=roles)
        case _:
            pass
    before = hub.rows("SELECT count(*) FROM inbox")

    dealt = await replays(hub)

    assert (dealt.done, dealt.reason) == ("refused", why)
    assert hub.rows("SELECT count(*) FROM inbox") == before
    assert len(await letters(hub)) == 1


async def test_while_its_breaker_is_open_another_person_has_to_agree(hub: Hub) -> None:
    await off_the_whitelist(hub, 2, breaker=BreakerRule(dead_letters=1))
    await hub.has_policy(version=3, breaker=BreakerRule(dead_letters=1))

    dealt = await replays(hub)

    assert (dealt.done, dealt.reason) == ("held", Reason.NEEDS_APPROVAL)
    assert not await hub.has_work()


@pytest.mark.requirement("S1")
async def test_of_a_command_of_several_steps_a_letter_shows_what_became_of_each(hub: Hub) -> None:
    rules = hub.keys.policy().actions
    await hub.has_policy(version=2, actions=rules | {ActionName.PRESENT: rules[POWER]})
    tv = await hub.television(OTHER_TV)
    tv.refuses("no", of="input")
    tv.meanwhile_at("input", lambda: tv.refuses("no", of="power"))
    await hub.admits(hub.command(ActionName.PRESENT, device=OTHER_TV, input="HDMI 2", volume=30))
    await hub.works_all()

    [shown] = (await hub.now.letters.show(1, ROOT)).letters

    assert shown.outcome is Outcome.ROLLBACK_FAILED
    assert shown.steps == ["power stuck", "input failed"]


async def test_nobody_deals_with_all_by_forgetting_to_say_which(hub: Hub) -> None:
    await off_the_whitelist(hub)

    with pytest.raises(RejectedError, match="say which"):
        await hub.now.letters.discard(DiscardRequest(wanted=LettersWanted(), why="old"), ROOT)

    assert len(await letters(hub)) == 1


async def test_a_letter_is_shown_exported_and_discarded_on_record(hub: Hub) -> None:
    await off_the_whitelist(hub)
    desk, wanted = hub.now.letters, LettersWanted(action=POWER, device=TV, reason=Reason.NOT_ALLOWED)

    [shown] = (await desk.show(1, ROOT)).letters
    [exported] = (await desk.export(wanted, ROOT)).letters
    await desk.discard(DiscardRequest(wanted=wanted, why="known"), ROOT)

    assert shown.arguments == {"on": True}
    assert exported.envelope is not None
    assert await letters(hub) == []
    [kept] = (await desk.letters(LettersWanted(dealt=True))).letters
    assert (kept.dealt, kept.dealt_by, kept.dealt_why) == ("discarded", ROOT, "known")
    for kind in (
        AuditKind.DEAD_LETTER_SHOWN,
        AuditKind.DEAD_LETTERS_EXPORTED,
        AuditKind.DEAD_LETTER_DISCARDED,
    ):
        [act] = await hub.audited(kind)
        assert act["actor"] == ROOT
    with pytest.raises(RejectedError, match="no dead letter 9"):
        await desk.show(9, ROOT)


@pytest.mark.requirement("B1", "C3")
async def test_what_is_stale_at_the_worker_is_kept_and_calls_nobody_and_opens_no_breaker(hub: Hub) -> None:
    await hub.has_policy(version=2, breaker=RULE)
    device = hub.now.devices.get(TV)
    assert device is not None
    for number in range(2 * RULE.dead_letters):
        stale = Precondition(version=device.shadow.version + 7)
        await hub.admits(hub.command(POWER, on=bool(number % 2), precondition=stale))
        await hub.works_all()

    found = await letters(hub)
    assert [(letter.outcome, letter.reason, letter.blame) for letter in found] == 2 * RULE.dead_letters * [
        (Outcome.REFUSED, Reason.STALE, "permanent")
    ]
    assert await hub.audited(AuditKind.BREAKER_OPENED) == []
    assert await hub.store.read(lambda db: dead_letters.waiting(db, answered=False)) == {}
    assert acted(hub) == 0


@pytest.mark.requirement("B3")
async def test_what_was_stopped_at_the_worker_is_kept_and_runs_again_when_that_is_taken_back(
    hub: Hub,
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()
    await hub.now.switch.throw(SwitchRequest(kind="all", why="smoke"), Verb.STOP, ROOT)
    await hub.now.dispatch[Tier.LOW].work(claim)
    [letter] = await letters(hub)
    assert (letter.command, letter.reason) == (command.id, Reason.STOPPED)

    refused = await replays(hub)
    await hub.now.switch.throw(SwitchRequest(kind="all", why="smoke"), Verb.RESUME, ROOT)
    dealt = await replays(hub)
    await hub.works_all()

    assert (refused.done, refused.reason, dealt.done) == ("refused", Reason.STOPPED, "queued")
    assert acted(hub) == 1


async def test_what_calls_nobody_crowds_out_no_other_letter(hub: Hub) -> None:
    await off_the_whitelist(hub)
    [letter] = await hub.store.read(lambda db: [dead_letters.find(db, 1)])
    assert letter is not None
    asked = replace(letter, answered=True)

    def fill(tx: Transaction) -> list[int]:
        return [number for _ in range(MOST_ANSWERED + 3) for number in dead_letters.add(tx, asked)[1]]

    gone = await hub.store.write(fill)

    assert gone == [2, 3, 4]
    assert hub.rows("SELECT answered, count(*), min(number) FROM dead_letters GROUP BY answered") == [
        (0, 1, 1),
        (1, MOST_ANSWERED, 5),
    ]
