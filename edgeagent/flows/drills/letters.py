"""The drill ``dead-letter``: a command that fails is kept, and may run again (SPEC D1-D3, E1-E3)."""

import json
from datetime import timedelta
from hashlib import sha256
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import TierRule
from edgeagent.contracts.reports.dead_letters import LetterReport, LettersWanted, ReplayRequest
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.lifecycle import State
from edgeagent.flows.drills.rig import ATTEMPTS, Rig, ended
from edgeagent.flows.drills.story import Story
from edgeagent.ids import CommandId

_ACTOR: Final = "drill"
_LONG: Final = timedelta(minutes=8)


async def dead_letter(rig: Rig, story: Story) -> None:
    """Hold it.

    Raises:
        UnmetError: something else was seen than expected.
    """
    name = await _attempts_are_spent(rig, story)
    await _replayed(rig, story, name)
    await _too_late(rig, story)


async def _attempts_are_spent(rig: Rig, story: Story) -> CommandId:
    """A deaf appliance uses up the tries of a command, which is kept whole."""
    rig.appliance.is_deaf()
    name, envelope = rig.signed(ActionName.POWER, {"on": True}, valid_for=_LONG)
    await rig.admits(envelope)
    for _ in range(ATTEMPTS):
        await rig.works()
        rig.time.passes(TierRule().longest_delay)
        if (await rig.row(name)).state is not State.WAITING:
            break
    story.tell(
        "a command was sent to an appliance that did nothing",
        expected=f"failed (other_value), attempts {ATTEMPTS}; effects 0",
        seen=f"{ended(await rig.row(name))}; effects {len(rig.appliance.effects)}",
    )
    letter = await _letter(rig, name)
    seen, whole = "no dead letter", False
    if letter is not None:
        shown = (await rig.engine.letters.show(letter.number, _ACTOR)).letters[0]
        kept = b"" if shown.envelope is None else shown.envelope.payload
        whole = kept == unproven_payload(envelope) and shown.sha256 == sha256(kept).hexdigest()
        seen = (
            f"{letter.outcome}, {letter.blame}, {letter.reason}, attempts {letter.attempts}, "
            f"steps {len(letter.steps)}, whole: {whole}"
        )
    story.tell(
        "it became a dead letter, with its envelope",
        expected=f"failed, transient, other_value, attempts {ATTEMPTS}, steps {ATTEMPTS}, whole: True",
        seen=seen,
    )
    alerts = [json.loads(event.data) for event in await rig.records(EventType.ALERT)]
    about = [each["reason"] for each in alerts if each.get("command") == name]
    story.tell("a person was called", expected="retry_threshold", seen=", ".join(about) or "nobody was")
    return name


async def _replayed(rig: Rig, story: Story, name: CommandId) -> None:
    """The appliance is healed, and the letter runs again."""
    rig.appliance.is_well()
    story.tell(
        "the appliance was healed; the letter was replayed",
        expected="queued by the gate",
        seen=await _replay(rig, name),
    )
    await rig.works()
    row, letter = await rig.row(name), await _letter(rig, name, dealt=True)
    story.tell(
        "its new run was worked",
        expected="run 2 succeeded, attempts 1; effects 1; letter replayed by drill",
        seen=f"run {row.ordinal} {ended(row)}; effects {len(rig.appliance.effects)}; letter "
        + ("gone" if letter is None else f"{letter.dealt} by {letter.dealt_by}"),
    )


async def _too_late(rig: Rig, story: Story) -> None:
    """An appliance says no; when the command is over its time, no replay helps."""
    rig.appliance.refuses("not in a drill")
    name = await rig.orders(ActionName.VOLUME, level=70)
    await rig.works()
    letter = await _letter(rig, name)
    story.tell(
        "an appliance said no to a command",
        expected="failed (device_refused), attempts 1; dead letter: permanent",
        seen=f"{ended(await rig.row(name))}; dead letter: {'none' if letter is None else letter.blame}",
    )
    rig.appliance.is_well()
    effects = len(rig.appliance.effects)
    rig.time.passes(2 * _LONG)
    said = await _replay(rig, name)
    left = await _letter(rig, name)
    story.tell(
        "its time was over; the letter was replayed",
        expected="refused by the gate (expired); the letter waits: True; effects of it: 0",
        seen=f"{said}; the letter waits: {left is not None}; "
        f"effects of it: {len(rig.appliance.effects) - effects}",
    )


async def _replay(rig: Rig, name: CommandId) -> str:
    """Replay the letter of a command, and say what the gate said."""
    letter = await _letter(rig, name)
    if letter is None:
        return "no dead letter"
    request = ReplayRequest(wanted=LettersWanted(number=letter.number))
    [dealt] = (await rig.engine.letters.replay(request, _ACTOR)).letters
    return f"{dealt.done} by the gate" + ("" if dealt.reason is None else f" ({dealt.reason})")


async def _letter(rig: Rig, name: CommandId, *, dealt: bool = False) -> LetterReport | None:
    """The dead letter of a command; None where there is none."""
    letters = (await rig.engine.letters.letters(LettersWanted(dealt=dealt))).letters
    return next((letter for letter in letters if letter.command == name), None)
