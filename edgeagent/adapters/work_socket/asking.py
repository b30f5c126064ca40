"""One worker at the work socket, as the daemon hears it: its questions, asked of the desk.

It holds at most one claim. What the desk says no to is told to the worker as a value; what is against the
rules is told too, and remembered in ``broke_rules``.
"""

import logging
from contextlib import suppress

from edgeagent.adapters.work_socket.records import (
    answered_record,
    claim_record,
    served_record,
    sight_record,
    update_record,
    world_record,
)
from edgeagent.contracts.work import (
    AwaitRequest,
    CheckpointRequest,
    ClaimRequest,
    EnterRequest,
    FailureRecord,
    FinishRequest,
    Grip,
    Held,
    PostponeRequest,
    ProgressRequest,
    PublishRequest,
    ReadRequest,
    RenewRequest,
    ServeRequest,
    WorkAnswer,
)
from edgeagent.core.profile.readers import clean
from edgeagent.core.saga import Mark
from edgeagent.core.work import Claim, Ending, Later, StepName
from edgeagent.errors import (
    AgentError,
    BrokenInvariantError,
    LostRaceError,
    RejectedError,
    SuspiciousError,
    TransientError,
)
from edgeagent.ports.desk import ExpiredError, LendingDesk, StoppedError
from edgeagent.ports.links import LinkError

log = logging.getLogger(__name__)

_MOST_WORDS = 200
_DONE = WorkAnswer()


class Caller:
    """Asks the desk what a worker asks.

    Attributes:
        who: it is, as the kernel tells.
        is_given: whether it was just given a command, and has not said a word to it.
        broke_rules: what it did that no worker of ours does; empty as long as it did nothing.
    """

    def __init__(self, desk: LendingDesk, who: str) -> None:
        self._desk = desk
        self.who = who
        self.is_given = False
        self._claim: Claim | None = None
        self.broke_rules = ""

    @property
    def has_claim(self) -> bool:
        """Whether it holds a command."""
        return self._claim is not None

    @staticmethod
    def may_take_long(request: ClaimRequest | Held) -> bool:
        """Whether the answer waits for something outside, so that it may be given up in the middle."""
        return isinstance(request, ClaimRequest | AwaitRequest | ProgressRequest)

    async def answer(self, request: ClaimRequest | Held) -> WorkAnswer:
        """Do what is asked, and say what came of it."""
        self.is_given = False
        try:
            if isinstance(request, ClaimRequest):
                return await self._take(request)
            return await self._of(self._held(request.grip), request)
        except (SuspiciousError, BrokenInvariantError) as why:
            # What our own code never asks, so that it is not our own code, or not in order.
            self.broke_rules = str(why)
            return _failure(why)
        except AgentError as why:
            if isinstance(why, LostRaceError):
                self._claim = None
            return _failure(why)

    def forget(self) -> None:
        """Leave what it holds to the end of its lease, or of the agent."""
        self._claim = None

    async def let_go(self) -> None:
        """Give up what it holds: it is gone."""
        claim, self._claim = self._claim, None
        if claim is None:
            return
        # Lost, or the store is in trouble: then the lease lapses.
        with suppress(LostRaceError, TransientError):
            await self._desk.abandon(claim)
            log.warning(
                "claim let go",
                extra={"command": claim.asked.command.id, "device": claim.device, "holder": self.who},
            )

    async def _take(self, request: ClaimRequest) -> WorkAnswer:
        if self._claim is not None:
            raise SuspiciousError("it has a command already")
        # Two that call themselves the same are told apart by what the kernel says.
        claim = await self._desk.claim(request.lane, f"{request.holder}@{self.who}")
        self._claim, self.is_given = claim, True
        return WorkAnswer(claim=claim_record(claim, request.lane))

    def _held(self, grip: Grip) -> Claim:
        claim = self._claim
        if claim is None:
            raise LostRaceError("it holds no command any more")
        if (grip.token, grip.run, grip.fence) != (claim.token, claim.run, claim.fence):
            raise SuspiciousError(f"run {grip.run} under fence {grip.fence} is not what it holds")
        return claim

    async def _of(self, claim: Claim, request: Held) -> WorkAnswer:
        match request:
            case RenewRequest():
                await self._desk.renew(claim)
            case PublishRequest(step=step, part=part):
                return WorkAnswer(result=await self._desk.publish(claim, _step(step), part))
            case CheckpointRequest():
                await self._desk.checkpoint(claim, _mark(request))
            case AwaitRequest(level=level, within=within):
                answered = await self._desk.await_confirmation(claim, level=level, within=within)
                return WorkAnswer(answered=answered_record(answered))
            case ReadRequest():
                return WorkAnswer(world=world_record(await self._desk.read_device(claim)))
            case ServeRequest() | ProgressRequest() | EnterRequest():
                return await self._of_update(claim, request)
            case FinishRequest(outcome=outcome, reason=reason, detail=detail, level=level):
                ending = Ending(outcome=outcome, reason=reason, detail=detail or "", level=level)
                await self._desk.finish(claim, ending)
                self._claim = None
            case PostponeRequest(reason=reason, after=after, error=error, unsent=unsent):
                later = Later(reason=reason, after=after, error=error or "", unsent=unsent)
                await self._desk.postpone(claim, later)
                self._claim = None
        return _DONE

    async def _of_update(
        self, claim: Claim, request: ServeRequest | ProgressRequest | EnterRequest
    ) -> WorkAnswer:
        match request:
            case ServeRequest():
                return WorkAnswer(served=served_record(await self._desk.serve(claim)))
            case ProgressRequest(within=within):
                return WorkAnswer(sight=sight_record(await self._desk.await_progress(claim, within=within)))
            case EnterRequest(stage=stage):
                return WorkAnswer(update=update_record(await self._desk.enter(claim, stage)))


def _step(name: str) -> StepName:
    try:
        return StepName(name)
    except ValueError as why:
        raise SuspiciousError(f"no plan has a step {name}") from why


def _mark(request: CheckpointRequest) -> Mark:
    """What is said of a part; all else of it the desk knows."""
    return Mark(
        part=request.part,
        name="",
        phase=request.phase,
        level=request.level,
        reason=request.reason,
        detail=request.detail or "",
    )


def _failure(why: AgentError) -> WorkAnswer:
    words = clean(str(why), _MOST_WORDS) or type(why).__name__
    match why:
        case LinkError():
            failure = FailureRecord(kind="link", why=words, trouble=why.trouble, retry_after=why.retry_after)
        case StoppedError():
            failure = FailureRecord(kind="stopped", why=words)
        case ExpiredError():
            failure = FailureRecord(kind="expired", why=words)
        case LostRaceError():
            failure = FailureRecord(kind="lost", why=words)
        case TransientError():
            failure = FailureRecord(kind="busy", why=words)
        case RejectedError():
            failure = FailureRecord(kind="rejected", why=words)
        case _:
            failure = FailureRecord(kind="cut_off", why=words)
    return WorkAnswer(failure=failure)
