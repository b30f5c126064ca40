"""The worker's end of the work socket: a ``WorkDesk`` whose desk is in the daemon.

One connection, one command at a time. It connects when a command is wanted, waits while no agent listens,
and closes when anything is out of step: the agent then lets go of the claim, and somebody else takes over.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.adapters.work_socket.believing import (
    answered_of,
    claim_of,
    served_of,
    sight_of,
    update_of,
    world_of,
)
from edgeagent.adapters.work_socket.framing import read_frame, write_frame
from edgeagent.adapters.work_socket.presence import Presence
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.contracts.work import (
    ANSWER_BYTES,
    LONGEST_DELAY,
    LONGEST_WAIT,
    AwaitRequest,
    CheckpointRequest,
    ClaimRecord,
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
    WorkRequest,
)
from edgeagent.core.envelope import RefusedEnvelopeError
from edgeagent.core.firmware import Served, Sight, Update
from edgeagent.core.gate.world import World
from edgeagent.core.profile.readers import clean
from edgeagent.core.retry import BackoffRule, delay
from edgeagent.core.saga import Mark
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import AgentError, LostRaceError, MalformedError, RejectedError, TransientError
from edgeagent.ports.desk import DeskGoneError, ExpiredError, StoppedError
from edgeagent.ports.links import LinkError, Trouble

PATIENCE: Final = timedelta(seconds=15)
"""How long the agent may take for what it can do at once; its disk may stall."""
_AGAIN: Final = BackoffRule(first=timedelta(milliseconds=200), longest=timedelta(seconds=5))
_MOST_WORDS: Final = 200


class WorkClient:
    """Asks the daemon for commands of a lane, and for what they need. A ``WorkDesk``.

    Args:
        path: the agent's work socket.
        chance: draws from [0, 1).
        presence: is told whether the agent is there; all connections of a process share it.
    """

    def __init__(self, path: Path, chance: Callable[[], float], presence: Presence) -> None:
        self._path = path
        self._chance = chance
        self._presence = presence
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._has_claim = False

    async def claim(self, lane: Tier, holder: str) -> Claim:
        """Wait for a command of a lane, and for an agent that has some.

        Raises:
            LostRaceError: it has come too late.
        """
        if self._has_claim:
            # One that was not brought back goes with its connection.
            self.close()
        failures = 0
        while True:
            await self._connected()
            try:
                answer = await self._ask(ClaimRequest(lane=lane, holder=holder), None)
            except DeskGoneError as why:
                # Nothing was held.
                self._presence.missed(str(why))
                failures += 1
                await self._pauses(failures)
                continue
            failures = 0
            if answer.claim is None:
                raise self._out_of_step("no claim came")
            self._has_claim = True
            claim = await self._believed(answer.claim)
            if claim is not None:
                # Says at once that it has come: who does not is taken for standing still.
                await self.renew(claim)
                return claim

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease."""
        await self._ask(RenewRequest(grip=_grip(claim)), PATIENCE)

    async def publish(self, claim: Claim, step: StepName, part: int = 0) -> PublishResult:
        """Have a step sent."""
        answer = await self._ask(PublishRequest(grip=_grip(claim), step=step, part=part), PATIENCE)
        if answer.result is None:
            raise self._out_of_step("no result came")
        return answer.result

    async def checkpoint(self, claim: Claim, mark: Mark) -> None:
        """Have it recorded what became of the part that is next."""
        request = CheckpointRequest(
            grip=_grip(claim),
            part=mark.part,
            phase=mark.phase,
            level=mark.level,
            reason=mark.reason,
            detail=_words(mark.detail),
        )
        await self._ask(request, PATIENCE)

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        within = min(within, LONGEST_WAIT)
        request = AwaitRequest(grip=_grip(claim), level=level, within=within)
        answer = await self._ask(request, within + PATIENCE)
        if answer.answered is None:
            raise self._out_of_step("no answer came")
        return answered_of(answer.answered)

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        answer = await self._ask(ReadRequest(grip=_grip(claim)), PATIENCE)
        if answer.world is None:
            raise self._out_of_step("no world came")
        return world_of(answer.world)

    async def serve(self, claim: Claim) -> Served:
        """Have an update's file served to its device, as far as it is needed."""
        answer = await self._ask(ServeRequest(grip=_grip(claim)), PATIENCE)
        if answer.served is None:
            raise self._out_of_step("nothing is served")
        return served_of(answer.served)

    async def await_progress(self, claim: Claim, *, within: timedelta) -> Sight:
        """Wait until more is seen of an update; at most so long."""
        within = min(within, LONGEST_WAIT)
        request = ProgressRequest(grip=_grip(claim), within=within)
        answer = await self._ask(request, within + PATIENCE)
        if answer.sight is None:
            raise self._out_of_step("no sight came")
        return sight_of(answer.sight)

    async def enter(self, claim: Claim, stage: Stage) -> Update:
        """Have it recorded which stage an update is at."""
        answer = await self._ask(EnterRequest(grip=_grip(claim), stage=stage), PATIENCE)
        if answer.update is None:
            raise self._out_of_step("no update came")
        return update_of(answer.update)

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command."""
        request = FinishRequest(
            grip=_grip(claim),
            outcome=ending.outcome,
            reason=ending.reason,
            detail=_words(ending.detail),
            level=ending.level,
        )
        await self._bring_back(request)

    async def postpone(self, claim: Claim, later: Later) -> None:
        """Give the command back, to be taken up again later."""
        request = PostponeRequest(
            grip=_grip(claim),
            reason=later.reason,
            after=None if later.after is None else min(later.after, LONGEST_DELAY),
            error=_words(later.error),
            unsent=later.unsent,
        )
        await self._bring_back(request)

    def close(self) -> None:
        """Hang up. What is held is let go of by the agent."""
        self._has_claim = False
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _bring_back(self, request: FinishRequest | PostponeRequest) -> None:
        await self._ask(request, PATIENCE)
        self._has_claim = False

    async def _believed(self, record: ClaimRecord) -> Claim | None:
        """The claim, if its command is signed as the policy wants; else it is ended."""
        try:
            return claim_of(record)
        except RefusedEnvelopeError as why:
            outcome = Outcome.UNKNOWN if record.sent else Outcome.REFUSED
            request = FinishRequest(
                grip=record.grip, outcome=outcome, reason=why.reason, detail=_words(str(why))
            )
            await self._bring_back(request)
            return None
        except MalformedError as why:
            raise self._out_of_step(f"no claim: {why}") from why

    async def _connected(self) -> None:
        """Connect, if that is not so; wait for an agent that listens."""
        failures = 0
        while self._streams is None:
            try:
                self._streams = await asyncio.open_unix_connection(self._path, limit=ANSWER_BYTES)
            except OSError as why:
                self._presence.missed(why.strerror or str(why))
                failures += 1
                await self._pauses(failures)
            else:
                self._presence.seen()

    async def _pauses(self, failures: int) -> None:
        wait = delay(failures, first=_AGAIN.first, longest=_AGAIN.longest, chance=self._chance())
        await asyncio.sleep(wait.total_seconds())

    async def _ask(self, request: ClaimRequest | Held, patience: timedelta | None) -> WorkAnswer:
        """Ask one thing, and wait for its answer.

        Raises:
            DeskGoneError: the connection is over.
            AgentError: what the agent says went wrong.
        """
        if self._streams is None:
            raise DeskGoneError("the agent is gone")
        reader, writer = self._streams
        try:
            async with asyncio.timeout(None if patience is None else patience.total_seconds()):
                await write_frame(writer, encode(WorkRequest(request=request)))
                raw = await read_frame(reader, limit=ANSWER_BYTES)
            answer = decode(WorkAnswer, raw, limit=ANSWER_BYTES)
        except (TransientError, MalformedError, TimeoutError) as why:
            raise self._out_of_step(str(why) or "no answer in time") from why
        except asyncio.CancelledError:
            # The answer to this would be taken for that to the next question.
            self.close()
            raise
        if answer.failure is not None and answer.failure.kind == "cut_off":
            raise self._out_of_step(answer.failure.why)
        if answer.failure is not None:
            raise _error(answer.failure)
        return answer

    def _out_of_step(self, why: str) -> DeskGoneError:
        self.close()
        return DeskGoneError(why)


def _error(failure: FailureRecord) -> AgentError:
    match failure.kind:
        case "lost":
            return LostRaceError(failure.why)
        case "stopped":
            return StoppedError(failure.why)
        case "expired":
            return ExpiredError(failure.why)
        case "rejected":
            return RejectedError(failure.why)
        case "link":
            known = {str(trouble): trouble for trouble in Trouble}
            trouble = known.get(failure.trouble or "", Trouble.UNREACHABLE)
            return LinkError(trouble, failure.why, failure.retry_after)
        case "busy" | "cut_off":
            return TransientError(failure.why)


def _grip(claim: Claim) -> Grip:
    return Grip(run=claim.run, token=claim.token, fence=claim.fence)


def _words(text: str) -> str | None:
    return clean(text, _MOST_WORDS) or None
