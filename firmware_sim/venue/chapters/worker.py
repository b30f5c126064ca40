"""A reboot: approved by a person, worked by a process without network, which is killed in the middle.

The product has no switch for this. The appliance reboots and does not say so; its journal shows it, and at
that moment, while the worker waits for the answer, the worker is killed and another one started.
"""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended


async def _play(venue: Venue) -> list[Statement]:
    wall, evidence = venue.appliances["Screen wall"], venue.evidence
    reboot = await venue.cloud.sign(wall.id, "reboot")
    await venue.give(reboot)
    venue.say("The desk signs a reboot. It is of the high tier: at the hub somebody has to agree.")
    await venue.appliances.fall_silent(wall)
    await venue.look()
    held = Statement(
        "Before that nothing was done.",
        f"{len(evidence.effects(wall.id))} effects, {len(evidence.receipts(reboot.id))} receipts",
        not evidence.effects(wall.id, "reboot") and not evidence.receipts(reboot.id),
    )
    venue.expect(wall, "reboot")
    await venue.hub.approve(wall, reboot.id)
    await venue.until(lambda: bool(evidence.effects(wall.id, "reboot")), "the appliance to reboot")
    early = len(evidence.receipts(reboot.id))
    killed = venue.hub.worker
    await killed.kill()
    await venue.appliances.heal(wall)
    other = await venue.hub.start_worker()
    venue.say(
        f"edgeagent commands approve. The wall reboots and does not say so; at that moment the worker "
        f"({killed.pid}) is killed. Another one ({other.pid}) takes over."
    )
    await venue.until_ended(reboot.id)
    return [
        held,
        Statement("The kill came after the reboot and before its receipt.", f"{early} receipts", not early),
        done(evidence, wall.id, "reboot", times=1, name=wall.name),
        ended(evidence, reboot.id, outcomes=["unknown", "succeeded"]),
    ]


WORKER: Final = Chapter(
    title="A reboot, and kill -9 of its worker",
    shows="High risk: a person agrees, a process apart works it, and whoever takes over repeats nothing.",
    play=_play,
)
