"""The hub's end of the queue over HTTPS: events up, commands down, the time.

    upload      counts only when the answer proves it: exactly 200, JSON, our nonce, our hub, epoch and
                stream, and only numbers that were sent (SPEC U4)
    lease       commands are lent; what is not acknowledged in time comes again
    statement   a signed time over our nonce; whoever asked verifies it

An upload that the queue itself refuses as a whole, too large or malformed, is a ``RejectedError``:
smaller pieces may pass, and a single event that is refused so never will (SPEC U5). The refusal must
name the upload's nonce, so that nothing in between can make the hub set an event aside.
"""

import asyncio
import gzip
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from edgeagent.adapters.cloud.exchange import Answer, Exchange, Question
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.adapters.cloud.wire import (
    LONGEST_HOLD,
    LONGEST_WAIT,
    MOST_COMMANDS,
    ExtendRequest,
    HandlesAnswer,
    HandlesRequest,
    LeaseAnswer,
    LeaseRequest,
    TimeRequest,
    UploadAnswer,
    head_text,
    numbers_of,
)
from edgeagent.clock import Clock
from edgeagent.contracts.command import COMMAND_BYTES
from edgeagent.contracts.door import Contract, encode
from edgeagent.contracts.event import BATCH_CONTENT_TYPE
from edgeagent.contracts.timestatement import TIME_BYTES
from edgeagent.errors import RejectedError
from edgeagent.ids import HubId
from edgeagent.ports.cloud import Acknowledged, Batch, Delivery
from edgeagent.ports.links import LinkError, Trouble

# Below this gzip saves less than a packet; above the second it would hold up the loop for milliseconds.
_WORTH_COMPRESSING: Final = 1024
_LARGE: Final = 32 * 1024
_LEVEL: Final = 6

_REFUSALS: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


def random_nonce() -> str:
    """128 bits of chance in hexadecimal."""
    return secrets.token_hex(16)


class HttpsQueue:
    """Keeps the promises of ``EventSink``, ``CommandSource`` and ``TimeSource`` over one session.

    Close it with ``await close()``.
    """

    def __init__(
        self,
        settings: CloudSettings,
        hub: HubId,
        clock: Clock,
        *,
        new_nonce: Callable[[], str] = random_nonce,
    ) -> None:
        self._exchange = Exchange(settings, clock)
        self._hub = hub
        self._clock = clock
        self._new_nonce = new_nonce

    def adopt(self, settings: CloudSettings) -> None:
        """Log in with another token, or by a certificate that came meanwhile, from the next request on."""
        self._exchange.adopt(settings)

    def when_turned_away(self, tell: Callable[[bool], None]) -> None:
        """Have somebody told False whenever the queue turns the hub away, True once it lets it in again."""
        self._exchange.when_turned_away(tell)

    @property
    def certificate_until(self) -> datetime | None:
        """When the queue's certificate ends; None where it has shown none yet."""
        return self._exchange.certificate_until

    async def close(self) -> None:
        """Close all connections."""
        await self._exchange.close()

    async def upload(self, batch: Batch) -> Acknowledged:
        """Hand events over; return what is proven stored. See ``EventSink``.

        Raises:
            LinkError: nothing is known to have arrived.
            RejectedError: the queue itself refuses the batch as a whole; nothing of it was stored.
        """
        nonce = self._new_nonce()
        body, gzipped = await _body_of(batch)
        query = {"batch": nonce, "epoch": batch.epoch, "stream": batch.stream}
        if batch.head is not None:
            query["head"] = head_text(batch.head)
        answer = await self._exchange.ask(
            Question(
                path=self._path("events"),
                query=query,
                body=body,
                content_type=BATCH_CONTENT_TYPE,
                gzipped=gzipped,
            )
        )
        problem = answer.problem()
        if problem is not None and problem.batch == nonce and answer.status in _REFUSALS:
            raise RejectedError(f"{problem.reason}: {problem.detail}")
        return self._proven(answer.read(UploadAnswer), batch, nonce)

    async def lease(self, *, most: int, wait: timedelta, hold: timedelta) -> list[Delivery]:
        """Borrow commands. See ``CommandSource``."""
        sent_at = self._clock.boot()
        wait = min(wait, timedelta(seconds=LONGEST_WAIT))
        request = LeaseRequest(
            most=min(most, MOST_COMMANDS),
            wait_seconds=wait.total_seconds(),
            hold_seconds=min(hold.total_seconds(), LONGEST_HOLD),
        )
        answer = (await self._ask("commands/lease", request, patience=wait)).read(LeaseAnswer)
        handles = {lent.handle for lent in answer.commands}
        too_large = any(len(lent.envelope) > COMMAND_BYTES for lent in answer.commands)
        if len(answer.commands) > request.most or len(handles) != len(answer.commands) or too_large:
            raise LinkError(Trouble.BROKEN_ANSWER, "commands were lent that were not asked for")
        # The loan began when the queue answered, not before it had waited; both count from our sending,
        # so that we never think a loan to last longer than the queue does.
        waited = min(timedelta(seconds=answer.waited_seconds), self._clock.boot() - sent_at)
        return [
            Delivery(
                lent.handle,
                lent.envelope,
                sent_at + waited + min(timedelta(seconds=lent.hold_seconds), hold),
                lent.traceparent,
            )
            for lent in answer.commands
        ]

    async def acknowledge(self, handles: Sequence[str]) -> None:
        """Tell that these are safe here. See ``CommandSource``.

        One whose loan is over is left out: it comes again, and the inbox knows it.
        """
        for some in _portions(handles):
            await self._settle("commands/acknowledge", HandlesRequest(handles=some), some)

    async def extend(self, handles: Sequence[str], *, hold: timedelta) -> None:
        """Keep these for longer. See ``CommandSource``; one whose loan is over is left out."""
        seconds = min(hold.total_seconds(), LONGEST_HOLD)
        for some in _portions(handles):
            await self._settle("commands/extend", ExtendRequest(handles=some, hold_seconds=seconds), some)

    async def hand_back(self, handles: Sequence[str]) -> None:
        """Give these back unread. See ``CommandSource``."""
        for some in _portions(handles):
            await self._settle("commands/hand-back", HandlesRequest(handles=some), some)

    async def statement(self, nonce: str) -> bytes:
        """Ask for a time statement. See ``TimeSource``."""
        answer = await self._ask("time", TimeRequest(nonce=nonce))
        if answer.status != HTTPStatus.OK or len(answer.body) > TIME_BYTES:
            problem = answer.problem()
            why = "" if problem is None else f": {problem.detail}"
            raise LinkError(Trouble.BROKEN_ANSWER, f"no time statement, but {answer.status}{why}")
        return answer.body

    async def _settle(self, name: str, request: Contract, handles: list[str]) -> None:
        answer = (await self._ask(name, request)).read(HandlesAnswer)
        if {*answer.done, *answer.gone} != set(handles):
            raise LinkError(Trouble.BROKEN_ANSWER, "an answer about other commands")

    async def _ask(self, name: str, request: Contract, *, patience: timedelta = timedelta(0)) -> Answer:
        return await self._exchange.ask(
            Question(path=self._path(name), body=encode(request), patience=patience)
        )

    def _path(self, name: str) -> str:
        return f"/v1/hubs/{self._hub}/{name}"

    def _proven(self, answer: UploadAnswer, batch: Batch, nonce: str) -> Acknowledged:
        """Believe an answer as far as it fits what was sent; see the module's docstring."""
        if (answer.batch, answer.hub, answer.epoch, answer.stream) != (
            nonce,
            self._hub,
            batch.epoch,
            batch.stream,
        ):
            raise LinkError(Trouble.BROKEN_ANSWER, "an answer to another upload")
        sent = {number for number, _ in batch.events}
        taken = numbers_of(answer.taken, most=len(sent))
        refused = {event.number: event.reason for event in answer.refused}
        if taken is None or not sent.issuperset(taken | refused.keys()) or taken & refused.keys():
            raise LinkError(Trouble.BROKEN_ANSWER, "an answer about events that were not sent")
        if not taken and not refused:
            raise LinkError(Trouble.BROKEN_ANSWER, "an answer that proves nothing")
        return Acknowledged(frozenset(taken), refused)


async def _body_of(batch: Batch) -> tuple[bytes, bool]:
    """The bytes of an upload, and whether they are compressed."""
    body = b"[" + b",".join(event for _, event in batch.events) + b"]"
    if len(body) < _WORTH_COMPRESSING:
        return body, False
    if len(body) < _LARGE:
        return gzip.compress(body, _LEVEL, mtime=0), True
    return await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0), True


def _portions(handles: Sequence[str]) -> list[list[str]]:
    """As many handles at a time as one request may hold."""
    return [list(handles[start : start + MOST_COMMANDS]) for start in range(0, len(handles), MOST_COMMANDS)]
