"""Signing anew what was refused because it was signed for an earlier life of the hub's database.

A hub whose database was lost or restored begins a new epoch and does nothing that was signed for the old
one (SPEC R3, T8): its memory of what it has done is gone. Whether something is still wanted a person
decides. What is signed anew is the same intent: the same operation, so that of two such commands one is
carried out; a new id, sequence and time, and the present epoch. Its precondition stays: a device that has
changed since then is not touched.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import CloudEvent, EventType, Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import unproven_payload
from edgeagent.errors import RejectedError
from edgeagent.ids import CommandId, Epoch, HubId, command_id
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.commands import Intent
from edgeagent.issuer.wire import CommandStatus

_PAGE: Final = 500


def command_in(envelope: bytes) -> Command:
    """The command in an envelope, without asking who signed it: whoever signs anew answers for it.

    Raises:
        MalformedError: there is none in it.
    """
    return decode(Command, unproven_payload(envelope), limit=COMMAND_BYTES)


def same_intent(command: Command, epoch: Epoch, *, valid_for: timedelta | None = None) -> Intent:
    """What a command meant, for the present life of its hub's database.

    Raises:
        RejectedError: it was signed for that life; there is nothing to sign anew.
    """
    if command.epoch == epoch:
        raise RejectedError(f"command {command.id} was signed for the present epoch of {command.hub}")
    intent = Intent(
        hub=command.hub,
        epoch=epoch,
        devices=command.devices,
        action=command.action,
        arguments=command.arguments,
        valid_for=command.expires_at - command.issued_at,
        operation=command.operation,
        precondition=command.precondition,
    )
    return intent if valid_for is None else replace(intent, valid_for=valid_for)


def was_refused_for_its_epoch(status: CommandStatus) -> bool:
    """Whether all of a command was refused because of its epoch, by its hub or before it was ever lent."""
    if status.reason is not None:
        return status.reason == Reason.WRONG_EPOCH
    return status.state.is_over and bool(status.results) and all(map(_is_about_epoch, status.results))


async def refused_for_their_epoch(client: IssuerClient, hub: HubId) -> AsyncIterator[CommandId]:
    """The commands that were refused because of their epoch, by the queue or by the hub in its present life.

    Raises:
        RefusedByQueueError: there is no such hub, or it has not said hello.
        LinkError: no answer.
    """
    void = (await client.hub(hub)).void
    for command in void:
        yield command
    seen: set[CommandId] = set(void)
    after = 0
    while True:
        page = await client.events(hub, Stream.RECORD, after=after, most=_PAGE)
        for event in page.events:
            named = event.data.get("command")
            if (
                _is_about_epoch(event)
                and isinstance(named, str)
                and (command := command_id(named)) not in seen
            ):
                seen.add(command)
                yield command
        if not page.events:
            return
        after = page.last


def _is_about_epoch(event: CloudEvent) -> bool:
    """Whether an event tells that a command was refused for its epoch, with a receipt or without one."""
    is_refusal = event.type is EventType.REFUSED or (
        event.type is EventType.RECEIPT and event.data.get("outcome") == Outcome.REFUSED
    )
    return is_refusal and event.data.get("reason") == Reason.WRONG_EPOCH
