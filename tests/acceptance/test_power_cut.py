"""Nothing is told before it is safe, and every power cut leaves a disk that keeps what was told (SPEC R1).

The real agent is recorded at its work: readings, commands from the cloud, one of them refused, a kill and a
restart, an orderly end. Its disk is then cut off at place after place of the recording.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import DeviceId
from tests.acceptance.promises import facts_by, overtaking, overtakings, shortfalls
from tests.support.agents import AgentProcess
from tests.support.agents_burst import Judgement
from tests.support.agents_venue import Venue
from tests.support.brokers import free_port
from tests.support.recording import Kind, Recording, compiled
from tests.support.recording_wire import (
    CommandAcknowledged,
    EventUploaded,
    MessageAcknowledged,
    StepSent,
    Told,
    told,
)
from tests.support.replaying import Disk, Survival, write

READINGS: Final = 20
ABSENT: Final = DeviceId("02A1B20000FF")
MOST: Final = 400
SEED: Final = 20
_TALK: Final = frozenset({Kind.CONNECTED, Kind.SENT, Kind.RECEIVED})

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R1", "Q1", "Q3")]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, dict[str, bytes]]:
    """What was recorded, and the files as the agent has left them in the end."""
    folder = tmp_path_factory.mktemp("recorded")
    recorder, log = compiled(folder), folder / "log"
    with Venue(folder / "venue", plugs=2) as venue:
        agent, (plug, other) = venue.agent, venue.devices
        agent.environment = recorder.environment(agent.state_dir, log)
        venue.open()
        burst = venue.burst(READINGS, rate=40)
        orders = [
            venue.order(plug, ActionName.TOGGLE),
            venue.order(other, ActionName.POWER, {"on": True}),
            venue.order(ABSENT, ActionName.TOGGLE),
        ]
        outcomes = [venue.end_of(order).outcome for order in orders]
        burst.finish()
        agent.kill()
        agent.start()
        agent.wait_for_broker()
        orders = [venue.order(plug, ActionName.TOGGLE), venue.order(other, ActionName.POWER, {"on": False})]
        outcomes += [venue.end_of(order).outcome for order in orders]
        venue.catch_up()
        assert venue.judgement() == Judgement()
        assert agent.stop() == 0
        files = {path.name: path.read_bytes() for path in agent.state_dir.iterdir()}
        recording = Recording.load(log, agent.state_dir)
    done, refused = Outcome.SUCCEEDED, Outcome.REFUSED
    assert outcomes == [done, done, refused, done, done]
    return recording, files


@pytest.fixture
def recording(scenario: tuple[Recording, dict[str, bytes]]) -> Recording:
    """What was recorded."""
    return scenario[0]


def places_of(recording: Recording, kind: type[Told]) -> list[int]:
    """Where things of a kind were told."""
    return sorted({fact.at for fact in told(recording) if isinstance(fact, kind)})


def waited_for(recording: Recording, place: int) -> Iterator[int]:
    """The places of the syncs between what was sent and what its connection did before; last one first."""
    number = recording.records[place].number
    for at in range(place - 1, -1, -1):
        record = recording.records[at]
        if record.kind is Kind.SYNCED:
            yield at
        if record.number == number and record.kind in _TALK:
            return


def test_the_recorder_misses_nothing(scenario: tuple[Recording, dict[str, bytes]]) -> None:
    """Done again, everything that was recorded gives the very files."""
    recording, files = scenario

    again = Disk(recording).image(len(recording.records), Survival.ALL, Random(SEED))  # noqa: S311 - no chance in it

    assert again == files
    assert (
        len({fact.message.payload for fact in told(recording) if isinstance(fact, MessageAcknowledged)}) >= 20
    )
    assert len({fact.command for fact in told(recording) if isinstance(fact, CommandAcknowledged)}) == 5


async def test_nothing_is_told_before_the_sync_that_covers_it(recording: Recording, tmp_path: Path) -> None:
    assert await overtakings(recording, tmp_path / "disks") == []


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        pytest.param(MessageAcknowledged, "messages acknowledged and lost", id="PUBACK"),
        pytest.param(
            CommandAcknowledged, "commands acknowledged and lost", id="acknowledgement to the queue"
        ),
        pytest.param(StepSent, "steps were sent", id="step"),
        pytest.param(EventUploaded, "will be given again", id="upload"),
    ],
)
async def test_whoever_is_told_too_early_is_noticed(
    kind: type[Told], complaint: str, recording: Recording, tmp_path: Path
) -> None:
    """The recording is edited: something goes out right before a sync that was done by then.

    Which of them had waited for which sync, chance has decided.
    """
    noticed: list[str] = []
    for place in places_of(recording, kind):
        for early in waited_for(recording, place):
            edited = recording.moved(place, early)
            noticed += await overtaking(edited, early, tmp_path / f"{place}-{early}")
            if any(complaint in problem for problem in noticed):
                return

    pytest.fail(f"only this was noticed: {noticed}")


@pytest.mark.requirement("A3", "L2", "T8", "U1")
@pytest.mark.parametrize("survival", Survival, ids=str)
async def test_a_power_cut_anywhere_leaves_a_disk_that_keeps_what_was_told(
    survival: Survival, recording: Recording, tmp_path: Path
) -> None:
    disks, problems = await shortfalls(recording, survival, tmp_path / "disks", seed=SEED, most=MOST)

    assert problems == []
    assert disks > READINGS


@pytest.mark.requirement("R5")
@pytest.mark.parametrize("seed", range(1, 4))
def test_an_agent_starts_by_itself_on_what_a_power_cut_leaves(
    seed: int, recording: Recording, tmp_path: Path
) -> None:
    chance = Random(seed)  # noqa: S311 - to be had again from its seed
    cut = chance.randrange(places_of(recording, EventUploaded)[0] + 1, len(recording.records))
    agent = AgentProcess(tmp_path, f"[broker]\nport = {free_port()}\n")
    write(Disk(recording).image(cut, Survival.RANDOM, chance), agent.state_dir)

    with closing(agent):
        agent.start()
        status = agent.status()
        stopped = agent.stop()

    facts = facts_by(recording, cut)
    assert {status.epoch} == facts.epochs
    assert status.incarnation > facts.incarnation
    assert stopped == 0


async def test_an_agent_that_never_synced_would_be_found_out(recording: Recording, tmp_path: Path) -> None:
    """The same recording without any sync of a file, as ``synchronous = OFF`` would have left it."""
    careless = recording.without(Kind.SYNCED)

    _, problems = await shortfalls(careless, Survival.SYNCED, tmp_path / "disks", seed=SEED, most=MOST)

    assert any("messages acknowledged and lost" in problem for problem in problems)
    assert any("commands acknowledged and lost" in problem for problem in problems)
