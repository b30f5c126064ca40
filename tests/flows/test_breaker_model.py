"""Breakers over time: whatever is sent, worked, set, killed and reset, each stands as its few rules say.

Beside the hub runs a small model of one breaker for each origin. It knows no store and no clock but how much
boot time has passed; after every event hub and model have said the same and stand the same. So one origin's
flood stops nobody else, no more than one command tries while a breaker is half-open, a restart keeps
everything, and neither a clock that is set nor a reboot opens one early or keeps it open for ever.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import WhenOpen
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.breakers import BreakerRequest
from edgeagent.core.gate.verdict import Accept, Hold, Refuse, Verdict
from edgeagent.errors import RejectedError
from edgeagent.ids import CommandId
from edgeagent.store import audit
from tests.flows.breaker_standing import RULE, Standing
from tests.flows.commanding import Hub
from tests.flows.scripted import Television
from tests.flows.signing import INPUT, MILLISECOND, MINUTE, SECOND
from tests.support.keys import MemoryKey

T = TypeVar("T")

ROOT: Final = "uid:0 root"
VALID: Final = 8 * MINUTE

origins = st.sampled_from(["desk", "night", "stranger"])
names = st.sampled_from(["HDMI 1", "HDMI 2", "HDMI 9"])
batches = st.lists(st.tuples(origins, names), min_size=1, max_size=5)
lengths = st.sampled_from(
    [MILLISECOND, SECOND, RULE.slow_pace, RULE.within, RULE.open_for - SECOND, RULE.open_for, VALID]
)
leaps = st.sampled_from([timedelta(days=days) for days in (-400, -1, 1, 400)])


class BreakersOverTime(RuleBasedStateMachine):
    """A hub, a television, and three origins of whom one may do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._hub = Hub(Path(self._folder.name))
        self._models = {name: Standing() for name in ("desk", "night", "stranger")}
        self._how = RULE.when_open
        self._version = 1
        self._television: Television | None = None
        self._rows = 0

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return self._runner.run(work)

    @override
    def teardown(self) -> None:
        try:
            if self._hub.is_running:
                self._run(self._all_is_well_again())
        finally:
            # A database that is left open keeps the whole process from ending.
            if self._hub.is_running:
                self._run(self._hub.dies())
            self._runner.close()
            self._folder.cleanup()

    @initialize(how=st.sampled_from(WhenOpen))
    def begin(self, how: WhenOpen) -> None:
        """A hub with a policy, and a television that is on."""
        self._run(self._begin(how))

    async def _begin(self, how: WhenOpen) -> None:
        await self._hub.starts()
        await self._hub.has_policy()
        self._television = await self._hub.television()
        self._television.reports(power=True)
        await self._hub.settles()
        await self._is_told(how)

    async def _is_told(self, how: WhenOpen) -> None:
        self._version, self._how = self._version + 1, how
        breaker = RULE.model_copy(update={"when_open": how})
        await self._hub.has_policy(version=self._version, breaker=breaker)

    # What happens.

    @rule(batch=batches)
    def commands_come_together(self, batch: list[tuple[str, str]]) -> None:
        """Some right, some wrong, of several origins; each is judged in its turn."""
        commands = [self._hub.command(INPUT, valid_for=VALID, name=name) for _, name in batch]
        envelopes = [
            self._hub.signed(command, self._key(origin))
            for command, (origin, _) in zip(commands, batch, strict=True)
        ]
        verdicts = self._run(self._hub.admits(*envelopes))
        for command, (origin, name), verdict in zip(commands, batch, verdicts, strict=True):
            self._follow(command, origin, name, verdict)

    def _follow(self, command: Command, origin: str, name: str, verdict: Verdict) -> None:
        """See that the model says the same of a command."""
        model, now = self._models[origin], self._now
        is_right = name != "HDMI 9"
        if model.is_shut(self._how, now):
            self._is_stopped(verdict, may_wait=is_right and origin != "stranger")
            return
        self._rows += 1
        if is_right and origin != "stranger":
            assert isinstance(verdict, Accept), verdict
            model.takes(self._run_of(command.id), now)
            return
        assert isinstance(verdict, Refuse), verdict
        wrong = Reason.NOT_ALLOWED if origin == "stranger" else Reason.BAD_ARGUMENTS
        assert verdict.reason is wrong, verdict
        model.refuses(RULE.off_target if origin == "stranger" else RULE.refusals, now)

    def _is_stopped(self, verdict: Verdict, *, may_wait: bool) -> None:
        if self._how is WhenOpen.APPROVE and may_wait:
            assert isinstance(verdict, Hold), verdict
            assert verdict.reason is Reason.NEEDS_APPROVAL
            self._rows += 1
            return
        assert isinstance(verdict, Refuse), verdict
        assert verdict.reason is Reason.BREAKER_OPEN, verdict
        self._rows += self._how is WhenOpen.QUARANTINE

    @rule(obeys=st.booleans())
    def what_is_there_is_worked(self, obeys: bool) -> None:  # noqa: FBT001 - drawn
        """The television does as it is told, or hears nothing."""
        television = self._television
        assert television is not None
        television.obeys()
        if not obeys:
            television.is_deaf()
        before = self._now
        was_half_open = [name for name, model in self._models.items() if model.is_half_open(before)]
        self._run(self._hub.works_all())
        for name, model in self._models.items():
            if model.probe is not None:
                self._probe_was_worked(name, model, before, is_half_open=name in was_half_open)

    def _probe_was_worked(self, name: str, model: Standing, before: timedelta, *, is_half_open: bool) -> None:
        """Its success closes its breaker, its failure opens it anew; where it told nothing another may."""
        [(state, reason)] = self._hub.rows(f"SELECT state, reason FROM inbox WHERE run = {model.probe}")  # noqa: S608 - a number
        if state == "succeeded":
            model.closes()
        elif state in {"expired", "superseded", "refused"}:
            model.probe = None
        elif state in {"failed", "unknown"} or (reason == "retrying" and is_half_open):
            opened = self._opened_at(name)
            assert before <= opened <= self._now
            model.opens(opened)

    @precondition(lambda self: any(model.probe is not None for model in self._models.values()))
    @rule()
    def who_works_a_probe_is_killed(self) -> None:
        """Its lease is lost with it: that is no proof that all is well."""
        if not self._run(self._hub.has_work()):
            return
        claim = self._run(self._hub.claims())
        self._run(self._hub.starts_anew())
        now = self._now
        self._run(self._hub.now.upkeep.look())
        assert self._run(self._hub.has_work())
        again = self._run(self._hub.claims())
        assert again.fence == claim.fence + 1
        self._run(self._hub.now.dispatch[claim.rule.tier].work(again))
        for name, model in self._models.items():
            if model.probe != claim.run:
                continue
            if model.is_half_open(now):
                model.opens(now)
            else:
                self._probe_was_worked(name, model, now, is_half_open=False)

    @rule()
    def upkeep_looks(self) -> None:
        """What is held and may go on goes on; what is too late has ended."""
        held = self._held()
        self._hub.now.upkeep.time_is_surer()
        self._run(self._hub.now.upkeep.look())
        now = self._now
        for name, model in self._models.items():
            waiting = self._still(held.get(name, []))
            for run, state in waiting:
                if state in {"expired", "superseded"}:
                    continue
                assert (state == "held") == model.is_shut(self._how, now), (run, state)
                if state != "held":
                    model.takes(run, now)
            if model.probe is not None:
                self._probe_was_worked(name, model, now, is_half_open=False)

    @rule(length=lengths)
    def time_passes(self, length: timedelta) -> None:
        """On the clock that nobody can set; through a suspend too."""
        self._hub.passes(length)

    @rule(leap=leaps)
    def somebody_sets_the_clock(self, leap: timedelta) -> None:
        """Far forward or back: no breaker goes by that clock."""
        self._hub.clock_is_set(leap)

    @rule()
    def the_process_ends_and_another_begins(self) -> None:
        """Everything stands as it did."""
        self._run(self._hub.starts_anew())

    @rule()
    def the_power_fails(self) -> None:
        """Another boot, of which nobody knows how long after."""
        self._run(self._hub.reboots())
        self._hub.time_is_known()
        for model in self._models.values():
            model.reboots()

    @rule(how=st.sampled_from(WhenOpen))
    def the_policy_changes(self, how: WhenOpen) -> None:
        """What an open breaker does is another thing from now on."""
        self._run(self._is_told(how))

    @rule(origin=st.sampled_from(["desk", "night"]))
    def a_person_trips_one(self, origin: str) -> None:
        """Until it is reset."""
        self._run(self._hub.now.breakers.trip(self._asked(origin), ROOT))
        self._models[origin].opens(self._now, None)

    @rule(origin=origins)
    def a_person_resets_one(self, origin: str) -> None:
        """Where it is closed that is an error, and nothing has changed."""
        model = self._models[origin]
        reset = self._hub.now.breakers.reset(self._asked(origin), ROOT)
        if model.opened is None:
            before = self._hub.contents()
            with pytest.raises(RejectedError, match="closed"):
                self._run(reset)
            assert self._hub.contents() == before
            return
        self._run(reset)
        model.closes()

    # What holds.

    @invariant()
    def each_stands_as_it_has_to(self) -> None:
        """On the disk as in the model; one that is closed is not kept."""
        if not self._hub.is_running:
            return
        for name, model in self._models.items():
            key = self._key(name).id
            found = self._hub.rows(
                "SELECT opened_boot, opened_at, open_for, probe, let_boot, let_at FROM breakers"  # noqa: S608 - a digest
                f" WHERE origin = '{key}'"
            )
            if model.opened is None:
                assert found == [], name
                continue
            [(boot, opened, span, probe, let_boot, let_by)] = found
            assert self._moment(boot, opened) == model.opened, name
            assert probe == model.probe, name
            assert span == (None if model.span is None else model.span // MILLISECOND), name
            assert (None if let_by is None else self._moment(let_boot, let_by)) == model.let_by, name

    @invariant()
    def what_is_stopped_costs_no_row(self) -> None:
        """But where it is to be kept, and that is bounded."""
        if self._hub.is_running and self._how is not WhenOpen.QUARANTINE:
            assert self._hub.rows("SELECT count(*) FROM inbox") == [(self._rows,)]

    # Behind them.

    @property
    def _now(self) -> timedelta:
        return self._hub.clock.boot()

    def _moment(self, boot: object, at: object) -> timedelta:
        is_this_boot = boot == self._hub.clock.boot_id
        return int(str(at)) * MILLISECOND if is_this_boot else timedelta(0)

    def _key(self, origin: str) -> MemoryKey:
        keys = self._hub.keys
        return {"desk": keys.desk, "night": keys.night, "stranger": keys.stranger}[origin]

    @staticmethod
    def _asked(origin: str) -> BreakerRequest:
        return BreakerRequest(action=INPUT, origin=origin, reason="a drill")

    def _run_of(self, command: CommandId) -> int:
        [(run,)] = self._hub.rows(f"SELECT run FROM inbox WHERE command = '{command}'")  # noqa: S608 - an id
        return int(str(run))

    def _opened_at(self, origin: str) -> timedelta:
        [(at,)] = self._hub.rows(f"SELECT opened_at FROM breakers WHERE origin = '{self._key(origin).id}'")  # noqa: S608 - a digest
        return int(str(at)) * MILLISECOND

    def _held(self) -> dict[str, list[int]]:
        """The runs that are held, by their origin."""
        found: dict[str, list[int]] = {}
        names = {self._key(name).id: name for name in self._models}
        for run, issuer in self._hub.rows("SELECT run, issuer FROM inbox WHERE state = 'held' ORDER BY run"):
            found.setdefault(names[str(issuer)], []).append(int(str(run)))  # type: ignore[index]  # a key's id
        return found

    def _still(self, runs: list[int]) -> list[tuple[int, str]]:
        """Where those runs stand now."""
        states = {int(str(run)): str(state) for run, state in self._hub.rows("SELECT run, state FROM inbox")}
        return [(run, states[run]) for run in runs]

    async def _all_is_well_again(self) -> None:
        """Time passes, everybody sends what is right: none stays open but what a person has tripped."""
        television = self._television
        assert television is not None
        television.obeys()
        await self._is_told(WhenOpen.REFUSE)
        self._hub.passes(VALID + RULE.open_for)
        self._hub.now.upkeep.time_is_surer()
        await self._hub.now.upkeep.look()
        await self._hub.works_all()
        self._hub.passes(RULE.open_for)
        for origin in ("desk", "night"):
            if self._models[origin].span is None and self._models[origin].opened is not None:
                continue
            command = self._hub.command(INPUT, valid_for=VALID, name="HDMI 2")
            [verdict] = await self._hub.admits(self._hub.signed(command, self._key(origin)))
            assert isinstance(verdict, Accept), (origin, verdict)
            await self._hub.works_all()
            assert (await self._hub.ended(command)).outcome == "succeeded"
            assert self._hub.rows(f"SELECT 1 FROM breakers WHERE origin = '{self._key(origin).id}'") == []  # noqa: S608 - a digest
        assert await self._hub.now.store.read(audit.verify) is None


@pytest.mark.slow
@pytest.mark.requirement("B1", "B2", "T9")
def test_whatever_happens_each_breaker_stands_as_its_rules_say() -> None:
    run_state_machine_as_test(BreakersOverTime, settings=settings(max_examples=15, stateful_step_count=25))
