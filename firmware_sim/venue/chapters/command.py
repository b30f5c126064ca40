"""A signed command is carried out and confirmed: by hand, with the words that anybody may type."""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.policy import HUB
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement, done, ended


async def _play(venue: Venue) -> list[Statement]:
    machine, cloud = venue.appliances["Coffee machine"], venue.cloud
    venue.say("At the desk: edgeagent issuer command sign … power on=true, then send, then watch.")
    signed = await cloud.sign(machine.id, "power", "on=true")
    login = ("--queue", cloud.url, "--token-file", str(cloud.token("issuer")))
    venue.asked.commands.append(signed.id)
    venue.expect(machine, "power")
    await cloud.call("send", "-", *login, given=signed.envelope)
    watched = await cloud.call("watch", HUB, signed.id, *login)
    venue.say(f"The desk reads: {watched.out.strip()}")
    await venue.until_ended(signed.id)
    return [
        done(venue.evidence, machine.id, "power", times=1, name=machine.name),
        ended(venue.evidence, signed.id, outcomes=["succeeded"]),
    ]


COMMAND: Final = Chapter(
    title="A signed command, confirmed",
    shows="The cloud signs, the hub checks and acts, the appliance shows it, the receipt comes back.",
    play=_play,
)
