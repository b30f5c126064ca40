"""The drill ``lock``: one works an appliance at a time, a lost lease is refused (SPEC L1-L3)."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Level
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.work import Claim, Ending, StepName
from edgeagent.errors import LostRaceError
from edgeagent.flows.drills.appliance import APPLIANCE
from edgeagent.flows.drills.rig import LANE, Rig, beside, ended
from edgeagent.flows.drills.story import Story
from edgeagent.store import locks

_SECOND: Final = timedelta(seconds=1)
_FOREIGN: Final = "0" * 32


async def lock(rig: Rig, story: Story) -> None:
    """Hold it.

    Raises:
        UnmetError: something else was seen than expected.
    """
    await _one_waits(rig, story)
    await _one_is_gone(rig, story)


async def _one_waits(rig: Rig, story: Story) -> None:
    """A second command for a busy appliance waits, and is woken when it is free."""
    first = await rig.orders(ActionName.POWER, on=True)
    rig.appliance.holds_back()
    async with beside(rig.works("drill-first")) as one:
        await rig.appliance.acts()
        second = await rig.orders(ActionName.VOLUME, level=20)
        async with beside(rig.works("drill-second")) as other:
            await rig.settles()
            [told] = (await rig.engine.commands.one(second)).commands
            story.tell(
                "a second command came while the appliance was worked",
                expected="queued (device_busy), attempts 0; messages to the appliance: 1",
                seen=f"{told.state} ({told.reason}), attempts {told.attempts}; "
                f"messages to the appliance: {rig.bus.commands}",
            )
            await _foreign_token(rig, story)
            rig.appliance.speaks()
            await one
            await other
    rows = [await rig.row(name) for name in (first, second)]
    story.tell(
        "the appliance answered; its lock was released, and whoever waited was woken",
        expected="first succeeded, attempts 1; second succeeded, attempts 1; done in that order",
        seen=f"first {ended(rows[0])}; second {ended(rows[1])}; done in "
        + ("that order" if rig.appliance.effects == [("power", True), ("volume", 20)] else "another order"),
    )


async def _foreign_token(rig: Rig, story: Story) -> None:
    key = locks.Key(APPLIANCE, _FOREIGN)
    said = await _word(rig.engine.store.write(lambda tx: locks.release(tx, key)))
    holders = [each.holder for each in (await rig.engine.locks.locks()).locks]
    story.tell(
        "its lock was released by a token that is not its own",
        expected="refused; held by drill-first",
        seen=f"{said}; held by {', '.join(holders) or 'nobody'}",
    )


async def _one_is_gone(rig: Rig, story: Story) -> None:
    """Whose lease has lapsed is taken over, and refused from then on."""
    name = await rig.orders(ActionName.VOLUME, level=30)
    rig.appliance.holds_back()
    gone = await rig.claims("drill-gone")
    await rig.engine.desk.publish(gone, StepName.ACT)
    sent = rig.bus.commands
    rig.time.passes(gone.lease + _SECOND)
    taken = await rig.claims("drill-next")
    row = await rig.row(name)
    story.tell(
        "its holder sent a step, stopped, and its lease lapsed; another claimed",
        expected="taken over under the next fence, appliance to be read first: True; attempts 1",
        seen=f"taken over under {'the next' if taken.fence == gone.fence + 1 else 'a wrong'} fence, "
        f"appliance to be read first: {taken.force_refresh}; attempts {row.attempts}",
    )
    await _old_fence(rig, story, gone)
    rig.appliance.is_well()
    await rig.engine.dispatch[LANE].work(taken)
    story.tell(
        "the new holder went on",
        expected="succeeded, attempts 1; messages sent again: 0; effects of it: 1",
        seen=f"{ended(await rig.row(name))}; messages sent again: {rig.bus.commands - sent}; "
        f"effects of it: {rig.appliance.effects.count(('volume', 30))}",
    )


async def _old_fence(rig: Rig, story: Story, gone: Claim) -> None:
    """Let the old holder go on as if nothing had happened."""
    desk, sent = rig.engine.desk, len(rig.bus.sent)
    ending = Ending(outcome=Outcome.SUCCEEDED, level=Level.APPLIED)
    said = [
        await _word(desk.publish(gone, StepName.ACT)),
        await _word(desk.publish(gone, StepName.READ_BACK)),
        await _word(desk.renew(gone)),
        await _word(desk.finish(gone, ending)),
    ]
    now = rig.engine.around.present()
    held = await rig.engine.store.read(lambda db: locks.of_device(db, APPLIANCE, now))
    story.tell(
        "the old holder woke: it recorded a step, published a question, renewed its lease, ended the command",
        expected="refused, refused, refused, refused; messages: 0; held by drill-next",
        seen=f"{', '.join(said)}; messages: {len(rig.bus.sent) - sent}; "
        f"held by {'nobody' if held is None else held.holder}",
    )


async def _word(work: Awaitable[object]) -> str:
    """Whether something is refused since the lock is somebody else's."""
    try:
        await work
    except LostRaceError:
        return "refused"
    return "let through"
