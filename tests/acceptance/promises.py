"""What the world was told by a place in a recording, held against what a disk would hold there.

Nothing may be told before it is safe: no PUBACK before the sync of the commit that stores the message, no
acknowledgement of a command before the sync of its inbox row, no step to a device before the sync of the row
that says so, no event to the cloud under a number that a power cut would give away again.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import assert_never

from edgeagent.contracts.event import EventType, Stream, event_id
from edgeagent.errors import AgentError
from tests.support.agents_cloud import FIRST, numbers_of
from tests.support.recording import Recording
from tests.support.recording_wire import (
    CommandAcknowledged,
    EventProven,
    EventUploaded,
    MessageAcknowledged,
    Published,
    StepSent,
    Told,
    told,
)
from tests.support.replaying import Disk, Found, Survival, look, write


@dataclass(slots=True)
class Facts:
    """What is known outside.

    Attributes:
        messages: numbers of a burst's messages that the broker was told to forget.
        proven: numbers of those that the cloud has proven to hold.
        commands: those that the queue was told to forget.
        steps: how many commands went out to devices.
        uploaded: the highest number of each stream that the cloud has seen.
        epochs: that the cloud has seen.
        incarnation: the highest that the cloud has seen.
        fences: the highest of each device that the cloud has seen.
    """

    messages: set[int] = field(default_factory=set)
    proven: set[int] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    steps: int = 0
    uploaded: dict[Stream, int] = field(default_factory=lambda: defaultdict(int))
    epochs: set[str] = field(default_factory=set)
    incarnation: int = 0
    fences: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def learn(self, fact: Told) -> None:
        """Take note of something that was told."""
        match fact:
            case MessageAcknowledged(message=message):
                self.messages.update(_number_sent(message))
            case StepSent(message=message):
                # Questions change nothing; they are not on record.
                self.steps += "/POWER" in message.topic
            case CommandAcknowledged(command=command):
                self.commands.add(command)
            case EventUploaded(event=event):
                place = event_id(event.id)
                self.epochs.add(place.epoch)
                self.uploaded[place.stream] = max(self.uploaded[place.stream], place.number)
                self.incarnation = max(self.incarnation, event.incarnation)
                if event.type is EventType.RECEIPT:
                    device, fence = str(event.data["device"]), int(str(event.data["fence"]))
                    self.fences[device] = max(self.fences[device], fence)
            case EventProven(event=event):
                self.proven.update(numbers_of(event.data))
            case _:
                assert_never(fact)


def _number_sent(message: Published) -> list[int]:
    """The number of a burst's message, as the plug sent it."""
    if not message.topic.endswith("/SENSOR"):
        return []
    total = json.loads(message.payload)["ENERGY"]["Total"]
    return [int(total)] if total >= FIRST else []


def complaints(found: Found, facts: Facts) -> Iterator[str]:
    """Everything in which a disk falls short of what was told."""
    if found.damage or found.audit_break is not None:
        yield f"damaged: {found.damage} {found.audit_break}"
    if facts.epochs - {found.epoch}:
        yield f"the epoch {facts.epochs} became {found.epoch}"
    if lost := facts.messages - facts.proven - found.numbers:
        yield f"messages acknowledged and lost: {sorted(lost)}"
    if lost_commands := facts.commands - found.commands:
        yield f"commands acknowledged and lost: {sorted(lost_commands)}"
    if facts.steps > found.attempts:
        yield f"{facts.steps} steps were sent, {found.attempts} are on record"
    yield from _fallen(found, facts)


def _fallen(found: Found, facts: Facts) -> Iterator[str]:
    """What only grows, and would begin again below what was seen of it."""
    if facts.incarnation > found.incarnation:
        yield f"the start {facts.incarnation} is forgotten"
    for stream, number in facts.uploaded.items():
        if found.following.get(stream, 1) <= number:
            yield f"the number {number} of {stream} will be given again"
    for device, fence in facts.fences.items():
        if found.fences.get(device, 0) < fence:
            yield f"the fence of {device} falls below {fence}"


def facts_by(recording: Recording, cut: int) -> Facts:
    """What is known outside when everything before the record ``cut`` has happened."""
    facts = Facts()
    for fact in told(Recording(recording.records[:cut])):
        facts.learn(fact)
    return facts


async def overtakings(recording: Recording, folder: Path) -> list[str]:
    """Look at each thing that was told whether it was on the disk by then, whatever the disk does.

    Returns:
        What was told too early, with its place.
    """
    places = sorted({fact.at for fact in told(recording)})
    return [what for place in places for what in await overtaking(recording, place, folder)]


async def overtaking(recording: Recording, place: int, folder: Path) -> list[str]:
    """Look at what was told at one place of a recording. Returns as ``overtakings``."""
    image = folder / str(place)
    write(Disk(recording).image(place, Survival.SYNCED, Random(0)), image)  # noqa: S311 - no chance in it
    found, facts = await look(image), facts_by(recording, place + 1)
    return [f"{place}: {what}" for what in complaints(found, facts)]


async def shortfalls(
    recording: Recording, survival: Survival, folder: Path, *, seed: int, most: int
) -> tuple[int, list[str]]:
    """Cut the power at many places of a recording, and look at what is left.

    Args:
        recording: what was done and told.
        survival: what is left of that which was not synced.
        folder: for the images.
        seed: of what chance decides.
        most: how many places; right after each thing that was told comes first.

    Returns:
        How many different disks there were, and in what they fall short, with the place.
    """
    disk, facts, everything = Disk(recording), Facts(), told(recording)
    chance, seen, problems, next_fact = Random(seed), set(), [], 0  # noqa: S311 - to be repeated by its seed
    for cut in _places(recording, everything, chance, most):
        while next_fact < len(everything) and everything[next_fact].at < cut:
            facts.learn(everything[next_fact])
            next_fact += 1
        files = disk.image(cut, survival, chance)
        name = hashlib.sha256(repr((next_fact, sorted(files.items()))).encode()).hexdigest()
        if name in seen:
            continue
        seen.add(name)
        write(files, folder / name)
        try:
            found = await look(folder / name)
        except AgentError as why:
            problems.append(f"{cut}: cannot be opened: {why}")
            continue
        problems += [f"{cut}: {what}" for what in complaints(found, facts)]
    return len(seen), problems


def _places(recording: Recording, everything: Sequence[Told], chance: Random, most: int) -> list[int]:
    """Where the power goes: cut ``n`` comes after ``n`` records."""
    wanted = {fact.at + 1 for fact in everything}
    others = sorted(set(range(len(recording.records) + 1)) - wanted)
    return sorted(wanted | set(chance.sample(others, max(0, min(most - len(wanted), len(others))))))
