"""The drill ``duplicate``: what comes again has no further effect (SPEC Q1, T4).

It is held with a toggle: done twice it would be undone.
"""

import asyncio
from functools import partial
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.receipt import RECEIPT_BYTES, Receipt
from edgeagent.flows.drills.rig import Rig, ended, word_of
from edgeagent.flows.drills.story import Story
from edgeagent.ids import CommandId
from edgeagent.store import outbox

COPIES: Final = 50
"""How many copies come at once."""


async def duplicate(rig: Rig, story: Story) -> None:
    """Hold it.

    Raises:
        UnmetError: something else was seen than expected.
    """
    name, envelope = rig.signed(ActionName.TOGGLE, {})
    verdicts = await asyncio.gather(*(rig.admits(envelope) for _ in range(COPIES)))
    words = [word_of(verdict) for [verdict] in verdicts]
    story.tell(
        f"{COPIES} copies of one signed command came at once",
        expected=f"1 accepted, {COPIES - 1} known as repeats",
        seen=f"{words.count('accept')} accepted, {words.count('duplicate')} known as repeats",
    )
    _, same_meaning = rig.signed(ActionName.TOGGLE, {}, meaning=name)
    [verdict] = await rig.admits(same_meaning)
    story.tell(
        "a command of another id came that means the same happening",
        expected="refused (operation_running)",
        seen=word_of(verdict),
    )
    await rig.works()
    story.tell(
        "it was worked",
        expected="succeeded, attempts 1; effects on the appliance: 1",
        seen=f"{ended(await rig.row(name))}; effects on the appliance: {len(rig.appliance.effects)}",
    )
    await _again(rig, story, name, envelope)
    _, other_bytes = rig.signed(ActionName.VOLUME, {"level": 77}, named=name)
    [verdict] = await rig.admits(other_bytes)
    story.tell("other bytes came under the same id", expected="refused (id_conflict)", seen=word_of(verdict))
    _, same_meaning = rig.signed(ActionName.TOGGLE, {}, meaning=name)
    [verdict] = await rig.admits(same_meaning)
    story.tell(
        "once more a command of another id that means the same happening",
        expected="refused (operation_done)",
        seen=word_of(verdict),
    )
    story.tell(
        "what the appliance was made to do, in all",
        expected="toggle, once",
        seen=", ".join(each for each, _ in rig.appliance.effects)
        + (", once" if len(rig.appliance.effects) == 1 else ""),
    )


async def _again(rig: Rig, story: Story, name: CommandId, envelope: bytes) -> None:
    """Let the same come after its end, its receipt being away already: that very one goes up again."""
    before = await _receipts(rig, name)
    await rig.engine.store.write(partial(outbox.acknowledge, stream=Stream.RECORD, numbers=[*before]))
    gone = await _receipts(rig, name)
    [verdict] = await rig.admits(envelope)
    after = await _receipts(rig, name)
    story.tell(
        "its receipt had gone up; the same command came once more",
        expected="duplicate; receipts before 1, then 0, then 1; the same to the byte: True",
        seen=f"{word_of(verdict)}; receipts before {len(before)}, then {len(gone)}, then {len(after)}; "
        f"the same to the byte: {after == before}",
    )


async def _receipts(rig: Rig, name: CommandId) -> dict[int, bytes]:
    """The receipts of a command that wait to go up, by number."""
    found = {}
    for event in await rig.records(EventType.RECEIPT):
        receipt = decode(Receipt, event.data, limit=RECEIPT_BYTES)
        if receipt.command == name:
            found[event.number] = event.data
    return found
