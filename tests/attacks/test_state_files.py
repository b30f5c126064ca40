"""A bit, a page or all of a state file is not what it was: nothing runs on it, and nothing of it is deleted.

The hub starts on what is left and says so, or ends with 78 and says what to do. Which of it a restored or
lost database means for commands that are sent again is told in ``tests/acceptance/test_epochs.py``.
"""

import shutil
from collections.abc import Callable, Iterator
from hashlib import shake_256
from pathlib import Path

import pytest

from edgeagent.agent.beginning import open_store
from edgeagent.errors import AgentError
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port
from tests.support.stores import query
from tests.vectors.databases.kept import KEPT, unpack

pytestmark = [pytest.mark.threat("T25"), pytest.mark.requirement("R3", "H4")]

FLIPS = 100


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[AgentProcess]:
    """A hub that has worked, and stands still; its broker is away."""
    unpack(KEPT[-1], tmp_path / "state")
    agent = AgentProcess(tmp_path, f"[broker]\nport = {free_port()}\n")
    agent.start()
    assert agent.stop() == 0
    yield agent
    agent.close()


def zeros(raw: bytes) -> bytes:
    return bytes(len(raw))


def cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 2 + 3]


def flipped(raw: bytes) -> bytes:
    return bytes(byte ^ 0x40 if number % 61 == 17 else byte for number, byte in enumerate(raw))


@pytest.mark.slow
@pytest.mark.parametrize("ruin", [zeros, cut, flipped])
def test_the_hub_runs_on_what_is_whole_and_keeps_what_is_not(
    hub: AgentProcess, ruin: Callable[[bytes], bytes]
) -> None:
    state = hub.state_dir
    epoch = query(hub.database, "SELECT value FROM meta WHERE name = 'epoch'")
    assert open_commands(hub) != []

    # What can be done without: the hub goes on as it was.
    for name in ("floor.a", "floor.b", "agent.lock"):
        (state / name).write_bytes(ruin((state / name).read_bytes()))
    hub.start()
    assert [(hub.status().epoch,)] == epoch
    assert "slot of the floor file not usable" in hub.log
    assert hub.stop() == 0

    # What nothing can be done without: told, and left as it is.
    key = (state / "hub.key").read_bytes()
    (state / "hub.key").write_bytes(ruined := ruin(key))
    if ruin is not flipped:  # any 32 bytes are a key
        hub.launch()
        assert hub.wait_for_end() == 78
        assert "is damaged: move it away" in hub.log
        assert (state / "hub.key").read_bytes() == ruined
    (state / "hub.key").write_bytes(key)

    # What is begun anew: set aside whole, a new epoch, and nothing of the old one is taken up.
    (state / "hub.db").write_bytes(ruined := ruin((state / "hub.db").read_bytes()))
    hub.start()
    assert [(hub.status().epoch,)] != epoch
    [kept] = (path for path in state.glob("hub.db.damaged-*Z"))
    assert kept.read_bytes() == ruined
    assert open_commands(hub) == []
    assert "set aside" in hub.run("audit", "list").stdout or "damaged" in hub.run("health").stdout
    assert hub.stop() == 0
    assert "Traceback" not in hub.log


def open_commands(hub: AgentProcess) -> list[tuple[object, ...]]:
    """The commands that may still be worked."""
    return query(hub.database, "SELECT command FROM inbox WHERE state IN ('held', 'queued', 'waiting')")


async def test_one_flipped_bit_is_found_or_the_file_is_as_good(tmp_path: Path) -> None:
    """SQLite has no checksums: one inside a value is unseen here, and found by its signature or chain."""
    whole = unpack(KEPT[-1], tmp_path / "whole").read_bytes()
    before = query(tmp_path / "whole" / "hub.db", "SELECT count(*) FROM inbox")
    places, found = shake_256(b"places").digest(4 * FLIPS), 0
    for number in range(FLIPS):
        folder = tmp_path / "state"
        path = unpack(KEPT[-1], folder)
        raw, chance = bytearray(whole), int.from_bytes(places[4 * number : 4 * number + 4], "big")
        raw[chance // 8 % len(raw)] ^= 1 << chance % 8
        path.write_bytes(raw)
        try:
            store, damaged = await open_store(path)
        except AgentError:  # one of ours: told in words
            assert path.read_bytes() == bytes(raw)
            found += 1
        else:
            await store.close()
            if damaged is not None:
                assert damaged.read_bytes() == bytes(raw)
                found += 1
            else:
                assert query(path, "SELECT count(*) FROM inbox") == before
        shutil.rmtree(folder)
    assert found
