"""The drill ``crash``: work that is cut off goes on at the next start of the engine (SPEC R1, R5, L3).

The work is cut at named points and the engine started anew on what stands in its file. The appliance goes on
meanwhile, as a real one would.
"""

import asyncio

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType
from edgeagent.flows.drills.rig import Rig, ended
from edgeagent.flows.drills.story import Story
from edgeagent.ids import CommandId
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit
from edgeagent.store.side import Side


async def crash(rig: Rig, story: Story) -> None:
    """Hold it.

    Raises:
        UnmetError: something else was seen than expected.
    """
    names = [
        await _before_it_began(rig, story),
        await _between_steps(rig, story),
        await _before_the_final_commit(rig, story),
        await _after_a_one_shot(rig, story),
    ]
    ends = [(await rig.row(name)).state.value for name in names]
    receipts = len(await rig.records(EventType.RECEIPT))
    story.tell(
        "nothing was lost: the commands and their receipts",
        expected="succeeded, succeeded, succeeded, unknown; receipts 4",
        seen=f"{', '.join(ends)}; receipts {receipts}",
    )
    damage = await asyncio.to_thread(Side(rig.engine.store.path).damage)
    broken = await rig.engine.store.read(audit.verify)
    story.tell(
        "the file was checked, and the chain of its audit trail followed",
        expected="file ok, chain ok",
        seen=f"file {damage or 'ok'}, chain {'ok' if broken is None else broken.why}",
    )


async def _before_it_began(rig: Rig, story: Story) -> CommandId:
    name = await rig.orders(ActionName.POWER, on=True)
    is_cut = await rig.is_cut(CrashPoint.COMMAND_CLAIMED)
    attempts = (await rig.row(name)).attempts
    story.tell(
        "work was cut after a command was claimed, before anything was sent",
        expected="cut: True; attempts 0; effects 0",
        seen=f"cut: {is_cut}; attempts {attempts}; effects {len(rig.appliance.effects)}",
    )
    await rig.works()
    story.tell(
        "the engine was started again",
        expected="succeeded, attempts 1; effects 1",
        seen=f"{ended(await rig.row(name))}; effects {len(rig.appliance.effects)}",
    )
    return name


async def _between_steps(rig: Rig, story: Story) -> CommandId:
    rig.appliance.shows |= {"power": False}
    rig.appliance.speaks()
    await rig.bus.drains()
    already = len(rig.appliance.effects)
    name = await rig.orders(ActionName.PRESENT, input="HDMI 2", volume=33)
    is_cut = await rig.is_cut(CrashPoint.STEP_CHECKPOINTED)
    done = [step for step, _ in rig.appliance.effects[already:]]
    story.tell(
        "work was cut after the first of three steps had its checkpoint",
        expected="cut: True; steps done: power",
        seen=f"cut: {is_cut}; steps done: {', '.join(done)}",
    )
    await rig.works()
    done = [step for step, _ in rig.appliance.effects[already:]]
    story.tell(
        "the engine was started again",
        expected="succeeded; steps done, each once: power, input, volume",
        seen=f"{(await rig.row(name)).state}; steps done, each once: {', '.join(done)}",
    )
    return name


async def _before_the_final_commit(rig: Rig, story: Story) -> CommandId:
    already = len(rig.appliance.effects)
    name = await rig.orders(ActionName.VOLUME, level=44)
    is_cut = await rig.is_cut(CrashPoint.EFFECT_CONFIRMED)
    await rig.works()
    story.tell(
        "work was cut when its effect was known, before the final commit; the engine was started again",
        expected="cut: True; succeeded, attempts 1; effects 1",
        seen=f"cut: {is_cut}; {ended(await rig.row(name))}; effects {len(rig.appliance.effects) - already}",
    )
    return name


async def _after_a_one_shot(rig: Rig, story: Story) -> CommandId:
    already = len(rig.appliance.effects)
    name = await rig.orders(ActionName.TOGGLE)
    is_cut = await rig.is_cut(CrashPoint.STEP_SENT)
    await rig.works()
    story.tell(
        "work was cut after a one-shot was sent; the engine was started again",
        expected="cut: True; unknown (no_confirmation), attempts 1; not sent again: effects 1",
        seen=f"cut: {is_cut}; {ended(await rig.row(name))}; "
        f"not sent again: effects {len(rig.appliance.effects) - already}",
    )
    return name
