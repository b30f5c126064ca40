"""An issuer's end of the queue: send commands, watch them, read what hubs have told.

From a backend to a checked receipt:

    issuer = Issuer([load_key(Path("desk.pem"))], clock)
    async with IssuerClient(settings, clock) as cloud:
        hub = await cloud.hub(hub_id("venue-7"))
        order = issuer.sign(Intent(hub=hub.hub, epoch=hub.epoch, devices=[device_id("tv-1")],
                                   action=ActionName.POWER, arguments={"on": True}))
        await cloud.send(order)
        receipt = await cloud.receipt(order, within=timedelta(minutes=1))

A lost answer is no harm: the same command sent again is the same command.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

from pydantic import ValidationError

from edgeagent.adapters.cloud.exchange import Answer, Exchange, Question
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.adapters.cloud.wire import LONGEST_WAIT
from edgeagent.clock import Clock
from edgeagent.contracts.claim import Claim, secret_digest
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import CloudEvent, EventType, Stream, event_id
from edgeagent.contracts.receipt import Receipt
from edgeagent.core.evidence import told_receipt
from edgeagent.core.retry import delay
from edgeagent.errors import RejectedError, SuspiciousError, TransientError
from edgeagent.ids import CommandId, DeviceId, Epoch, HubId
from edgeagent.issuer.claim_wire import ClaimRequest, ClaimsAnswer, ClaimStatus, RevokedAnswer
from edgeagent.issuer.commands import SignedCommand
from edgeagent.issuer.wire import (
    CommandState,
    CommandStatus,
    DevicesAnswer,
    DeviceStatus,
    EnvelopesAnswer,
    EventsAnswer,
    HubStatus,
    RefusalCount,
    RefusalsAnswer,
)
from edgeagent.ports.links import LinkError, Trouble

# What is asked for here is larger than what a hub asks for: all devices of a venue, for one.
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_FIRST_DELAY: Final = timedelta(seconds=0.5)
_LONGEST_DELAY: Final = timedelta(seconds=10)

# What no waiting heals.
_LASTING: Final = frozenset({Trouble.LOGIN, Trouble.TLS, Trouble.TLS_EXPIRED, Trouble.CLOCK})


def _system_chance() -> float:
    return random.SystemRandom().random()


class RefusedByQueueError(RejectedError):
    """The queue does not take or know what it was asked for.

    Attributes:
        reason: its code.
    """

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(f"{reason}: {why}")
        self.reason = reason


class NoReceiptError(RejectedError):
    """A command ended on a device without ever being begun: it expired in the queue, or its hub refused it.

    Attributes:
        status: how it stands.
    """

    def __init__(self, status: CommandStatus) -> None:
        super().__init__(f"command {status.id} ended without a receipt: {_words_of(status)}")
        self.status = status


class StillOpenError(TransientError):
    """A command has not ended in the time that was given.

    Attributes:
        state: where it stood last; None when the queue did not answer once.
    """

    def __init__(self, state: CommandState | None) -> None:
        super().__init__(f"the command is still open: {state or 'the queue does not answer'}")
        self.state = state


class IssuerClient:
    """Speaks to the queue server with the token of an issuer, or of an auditor to read only."""

    def __init__(
        self,
        settings: CloudSettings,
        clock: Clock,
        *,
        chance: Callable[[], float] = _system_chance,
    ) -> None:
        most = max(settings.most_answer_bytes, _ANSWER_BYTES)
        self._exchange = Exchange(replace(settings, most_answer_bytes=most), clock)
        self._clock = clock
        self._chance = chance

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._exchange.close()

    async def send(self, order: SignedCommand, *, traceparent: str | None = None) -> CommandStatus:
        """Put a command in its hub's queue. Sending the same one again is harmless.

        Args:
            order: the command.
            traceparent: the place in a trace that it belongs to (W3C Trace Context); the hub goes on from it.

        Raises:
            RefusedByQueueError: the producer's gate refuses it, or its id names another command.
            LinkError: unknown whether it was taken; send it again.
        """
        return await self.send_envelope(order.command.hub, order.envelope, traceparent=traceparent)

    async def send_envelope(
        self, hub: HubId, envelope: bytes, *, traceparent: str | None = None
    ) -> CommandStatus:
        """Put the bytes of an envelope in a hub's queue. Raises as ``send``."""
        question = Question(path=f"/v1/hubs/{hub}/commands", body=envelope, traceparent=traceparent)
        answer = await self._exchange.ask(question)
        _raise_refusal(answer)
        return answer.read(CommandStatus, status=HTTPStatus.ACCEPTED)

    async def status(
        self,
        hub: HubId,
        command: CommandId,
        *,
        wait: timedelta = timedelta(0),
        known: CommandState | None = None,
    ) -> CommandStatus:
        """Where a command stands.

        Args:
            hub: whose.
            command: its id.
            wait: how long the queue may wait for it to move on, at most a minute.
            known: the state from which it is to move on; to a final one where absent.

        Raises:
            RefusedByQueueError: there is no such command.
            LinkError: no answer.
        """
        wait = min(max(wait, timedelta(0)), timedelta(seconds=LONGEST_WAIT))
        query = {"wait": f"{wait.total_seconds():.3f}"}
        if known is not None:
            query["known"] = known
        answer = await self._get(f"/v1/hubs/{hub}/commands/{command}", query, patience=wait)
        return answer.read(CommandStatus)

    async def envelopes(self, hub: HubId, command: CommandId) -> list[bytes]:
        """A command as it was sent, with all its signatures. Raises as ``status``."""
        answer = await self._get(f"/v1/hubs/{hub}/commands/{command}/envelopes", {})
        return answer.read(EnvelopesAnswer).envelopes

    async def receipt(
        self, order: SignedCommand, *, within: timedelta, hub_key: bytes | None = None
    ) -> Receipt:
        """Wait for the receipt of a command for one device. Raises as ``receipts``."""
        [device] = order.command.devices
        return (await self.receipts(order, within=within, hub_key=hub_key))[device]

    async def receipts(
        self, order: SignedCommand, *, within: timedelta, hub_key: bytes | None = None
    ) -> dict[DeviceId, Receipt]:
        """Wait for a command's receipts, and check that each is one about exactly what was signed.

        A queue that does not answer is asked again until the time is over.

        Args:
            order: what was signed.
            within: how long to wait at most.
            hub_key: the hub's public key, 32 raw bytes: each receipt's proof is verified with it. Without
                it the receipts are the queue's word.

        Returns:
            One for each of its devices.

        Raises:
            NoReceiptError: it expired in the queue, or its hub refused it, for one of them at least.
            StillOpenError: it has not ended in time.
            SuspiciousError: the queue gives a receipt about something else, or one that its hub has not
                signed.
            RefusedByQueueError: the queue does not know it.
            LinkError: the queue does not let us in, or is not the one that we trust.
        """
        deadline = self._clock.boot() + within
        state, failures = None, 0
        while (left := deadline - self._clock.boot()) > timedelta(0):
            try:
                status = await self.status(order.command.hub, order.command.id, wait=left)
            except LinkError as why:
                if why.trouble in _LASTING:
                    raise
                failures += 1
                pause = delay(failures, first=_FIRST_DELAY, longest=_LONGEST_DELAY, chance=self._chance())
                await asyncio.sleep(min(max(pause, why.retry_after or pause), left).total_seconds())
                continue
            state, failures = status.state, 0
            if state.is_over:
                return checked_receipts(order, status, hub_key)
        raise StillOpenError(state)

    async def hub(self, hub: HubId, *, epoch: Epoch | None = None) -> HubStatus:
        """What the queue knows of a hub; of the streams of another epoch than the current, if asked.

        Raises:
            RefusedByQueueError: there is no such hub.
            LinkError: no answer.
        """
        answer = await self._get(f"/v1/hubs/{hub}", {} if epoch is None else {"epoch": epoch})
        return answer.read(HubStatus)

    async def devices(self, hub: HubId) -> list[DeviceStatus]:
        """A hub's devices with versions, etags and newest readings. Raises as ``hub``."""
        return (await self._get(f"/v1/hubs/{hub}/devices", {})).read(DevicesAnswer).devices

    async def events(
        self, hub: HubId, stream: Stream, *, epoch: Epoch | None = None, after: int = 0, most: int = 500
    ) -> EventsAnswer:
        """A page of a stream; ``after`` its ``last`` comes the next. Raises as ``hub``."""
        query = {"stream": str(stream), "after": str(after), "most": str(most)}
        if epoch is not None:
            query["epoch"] = epoch
        return (await self._get(f"/v1/hubs/{hub}/events", query)).read(EventsAnswer)

    async def refusals(self, *, most: int = 100) -> list[RefusalCount]:
        """What the producer's gate refused, newest minute first. Raises as ``hub``."""
        return (await self._get("/v1/refusals", {"most": str(most)})).read(RefusalsAnswer).refusals

    async def gate(self, *, most: int = 100) -> RefusalsAnswer:
        """What the producer's gate refused, with its breakers. Raises as ``hub``."""
        return (await self._get("/v1/refusals", {"most": str(most)})).read(RefusalsAnswer)

    async def claim(self, claim: Claim) -> ClaimsAnswer:
        """Have a hub be claimed by a code; the queue gets the sha256 of its secret. Raises as ``hub``."""
        request = ClaimRequest(secret=secret_digest(claim.secret), until=claim.facts.until)
        return (await self._post(f"/v1/hubs/{claim.facts.hub}/claim", encode(request))).read(ClaimsAnswer)

    async def claims(self) -> list[ClaimStatus]:
        """The newest claim codes. Raises as ``hub``."""
        return (await self._get("/v1/claims", {})).read(ClaimsAnswer).claims

    async def revoke_claim(self, hub: HubId) -> int:
        """Take back the code that waits for a hub. Returns how many there were; raises as ``hub``."""
        return (await self._post(f"/v1/hubs/{hub}/claim/revoke", b"")).read(RevokedAnswer).revoked

    async def revoke(self, hub: HubId) -> int:
        """Take back all certificates of a hub, and its code. Returns how many counted; raises as ``hub``."""
        return (await self._post(f"/v1/hubs/{hub}/revoke", b"")).read(RevokedAnswer).revoked

    async def _post(self, path: str, body: bytes) -> Answer:
        answer = await self._exchange.ask(Question(path=path, body=body))
        _raise_refusal(answer)
        return answer

    async def _get(self, path: str, query: dict[str, str], *, patience: timedelta = timedelta(0)) -> Answer:
        answer = await self._exchange.ask(Question(method="GET", path=path, query=query, patience=patience))
        _raise_refusal(answer)
        return answer


def checked_receipts(
    order: SignedCommand, status: CommandStatus, hub_key: bytes | None = None
) -> dict[DeviceId, Receipt]:
    """The receipts of a command, held against what was signed: payload, id, device, action, hub, key.

    Args:
        order: what was signed.
        status: what the queue says of it.
        hub_key: the hub's public key; without it the proof is not looked at.

    Raises:
        NoReceiptError: it ended without one on a device.
        SuspiciousError: the queue gives one about something else, one that its hub has not signed, or not
            one for each device.
    """
    if not status.results or any(event.type is not EventType.RECEIPT for event in status.results):
        raise NoReceiptError(status)
    checked = [_checked(order, event, hub_key) for event in status.results]
    receipts = {receipt.device: receipt for receipt in checked}
    if len(receipts) < len(checked) or set(receipts) != set(order.command.devices):
        raise SuspiciousError("the queue does not give one receipt for each device")
    return receipts


def _checked(order: SignedCommand, event: CloudEvent, hub_key: bytes | None) -> Receipt:
    receipt = _receipt_of(event)
    command = order.command
    about = (receipt.payload_sha256, receipt.command, receipt.action)
    meant = (order.sha256, command.id, command.action)
    is_known = receipt.device in command.devices and receipt.issuer in order.signers
    if about != meant or not is_known:
        raise SuspiciousError("the queue gives a receipt about another command")
    if {event_id(event.id).hub, receipt.hub} != {command.hub}:
        raise SuspiciousError("the queue gives a receipt of another hub")
    if hub_key is None:
        return receipt
    try:
        return told_receipt(receipt, hub_key)
    except RejectedError as why:
        raise SuspiciousError(f"the queue gives a receipt that its hub has not signed: {why}") from why


def _receipt_of(event: CloudEvent) -> Receipt:
    try:
        return Receipt.model_validate(event.data)
    except ValidationError as why:
        raise SuspiciousError("the queue gives a receipt that is none") from why


def _words_of(status: CommandStatus) -> str:
    refused = [event for event in status.results if event.type is not EventType.RECEIPT]
    if not refused:
        return f"{status.state} {status.reason or ''}".rstrip()
    return ", ".join(f"{event.data.get('reason') or event.type}" for event in refused)


def _raise_refusal(answer: Answer) -> None:
    problem = answer.problem()
    if problem is not None:
        raise RefusedByQueueError(problem.reason, problem.detail)
