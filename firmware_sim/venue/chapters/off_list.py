"""Incident 2: commands that were let in, and whose targets are off the list when the worker comes to them."""

import asyncio
from collections.abc import Sequence
from typing import Final

from firmware_sim.venue.appliances import Appliance
from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.chapters.trail import Story
from firmware_sim.venue.policy import OFF_LIST
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended, stopped

_WITHDRAWN: Final = ("Coffee machine", "Bar lights", "Awning")
_KINDS: Final = ("policy_accepted", "command_claimed", "command_settled", "breaker_opened", "command_refused")
_SCOPE: Final = "reboot@desk"


async def _play(venue: Venue) -> list[Statement]:
    story, cloud, evidence = Story(venue), venue.cloud, venue.evidence
    withdrawn = [venue.appliances[name] for name in _WITHDRAWN]
    found = await _overtaken(venue, withdrawn)

    maker = venue.appliances["Ice maker"]
    late, again = await asyncio.gather(*(cloud.sign(maker.id, "reboot") for _ in range(2)))
    await venue.give(late)
    await venue.until_ended(late.id)
    venue.say("The worker finds out. Now the ice maker, which is on the list, is to reboot: quarantined.")
    await story.read("dead-letters list", "breakers list", kinds=_KINDS)
    venue.say(f"The operator sees to the list, and types: edgeagent breakers reset {_SCOPE} --reason …")
    await venue.hub.ask("breakers", "reset", _SCOPE, "--reason", "the list is right, the desk knows")
    venue.expect(maker, "reboot")
    await venue.give(again)
    await venue.hub.approve(maker, again.id)
    await venue.until_ended(again.id)
    return [
        *found,
        stopped(evidence, "reboot", cloud.keys["desk"], signal="off_target"),
        ended(evidence, late.id, outcomes=["refused"], reason="breaker_open"),
        ended(evidence, again.id, outcomes=["succeeded"]),
        done(evidence, maker.id, "reboot", times=1, name=maker.name),
    ]


async def _overtaken(venue: Venue, withdrawn: Sequence[Appliance]) -> list[Statement]:
    """Have reboots let in, take their appliances off the list, and only then have them worked."""
    hub, cloud = venue.hub, venue.cloud
    await hub.worker.stop()
    venue.say(f"While no worker is there, {OFF_LIST} reboots are signed, let in, and agreed to at the hub.")
    reboots = await asyncio.gather(*(cloud.sign(one.id, "reboot") for one in withdrawn))
    for reboot in reboots:
        await venue.give(reboot)
    listed = [one.id for one in venue.appliances.all if one not in withdrawn]
    await asyncio.gather(
        cloud.publish(reboots=listed),
        *(hub.approve(one, reboot.id) for one, reboot in zip(withdrawn, reboots, strict=True)),
    )
    venue.say("Then another policy is published that takes their appliances off the desk's list.")
    await hub.take_policy(cloud.version)
    await hub.start_worker()
    await venue.until_ended(*(reboot.id for reboot in reboots))
    return [
        statement
        for one, reboot in zip(withdrawn, reboots, strict=True)
        for statement in (
            ended(venue.evidence, reboot.id, outcomes=["refused"], reason="not_allowed"),
            done(venue.evidence, one.id, "reboot", times=0, name=one.name),
        )
    ]


OFF_THE_LIST: Final = Chapter(
    title="Incident: commands that the list has overtaken",
    shows="What may not be done any more is not done, is kept, and is stopped where there is much of it.",
    play=_play,
)
