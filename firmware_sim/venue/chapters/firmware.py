"""Firmware for a list of appliances: signed and approved, one first, one that fails, the file cut once."""

from collections.abc import Sequence
from typing import Final

from firmware_sim.venue.appliances import Appliance
from firmware_sim.venue.approved import ARTIFACT, NEW, OLD, sha256
from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.cloud import Signed
from firmware_sim.venue.policy import AT_ONCE, FIRST
from firmware_sim.venue.stage import Venue
from firmware_sim.venue.updates import courses, first_alone, not_too_many, runs_after
from firmware_sim.venue.verdict import Statement, ended

_LIST: Final = ("Ice maker", "Door signs", "Sound desk", "Mood lamp")
_FAULTY: Final = "Sound desk"
_WRITE: Final = 4


async def _play(venue: Venue) -> list[Statement]:
    hub, listed = venue.hub, [venue.appliances[name] for name in _LIST]
    venue.say(
        f"{ARTIFACT} is signed for by whoever built it, and the policy lists it. The hub is told to fetch it "
        "beforehand; on the way it is cut in the middle: edgeagent artifacts fetch"
    )
    venue.shelf.cuts = 1
    venue.teller.quote((await hub.ask("artifacts", "fetch", ARTIFACT)).out)
    faulty = venue.appliances[_FAULTY]
    await venue.appliances.lose_power(faulty, write=_WRITE)
    venue.say(
        f"The desk signs one command for {len(listed)} appliances. The policy says: {FIRST} first, then "
        f"{AT_ONCE} at once. The {faulty.name.lower()} will lose its power while it writes."
    )
    order = await venue.cloud.sign(
        ",".join(one.id for one in listed), "install", f"artifact={ARTIFACT}", f"digest={sha256()}"
    )
    for one in listed:
        if one is not faulty:
            # Into the new version.
            venue.expect(one, "reboot")
    await venue.give(order, len(listed))
    await venue.until(lambda: len(venue.evidence.receipts(order.id)) >= len(listed), "the receipts")
    venue.say(f"The operator reads: edgeagent firmware status {order.id}")
    venue.teller.quote((await hub.ask("firmware", "status", order.id)).out)
    return _judged(venue, listed, order)


def _judged(venue: Venue, listed: Sequence[Appliance], order: Signed) -> list[Statement]:
    evidence, shelf = venue.evidence, venue.shelf
    seen = courses(evidence.journal)
    cut = [begin + given for begin, given, size in shelf.gave if begin + given < size]
    taken_up = [begin for begin, _, _ in shelf.gave if begin]
    statements = [
        Statement(
            "The file was cut on its way to the hub, and came from there on.",
            f"cut at {cut}, taken up at {taken_up}",
            len(cut) == 1 and taken_up == cut,
        ),
        first_alone(seen, FIRST),
        not_too_many(seen, AT_ONCE),
    ]
    for one in listed:
        is_good = one.name != _FAULTY
        outcome, version = ("succeeded", NEW) if is_good else ("failed", OLD)
        statements += [
            runs_after(seen, one.id, version, name=one.name),
            ended(evidence, order.id, outcomes=[outcome], on=(one.id, one.name)),
        ]
    return statements


FIRMWARE: Final = Chapter(
    title="Firmware for a list of appliances",
    shows="Signed twice, one first, few at once, once each; who fails keeps the old version and works.",
    play=_play,
)
