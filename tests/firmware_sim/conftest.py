"""A broker, an outsider, and appliances with boring defaults."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.faults import FaultPlan
from firmware_sim.fields import Json
from firmware_sim.firmware import Timing
from firmware_sim.journal import Journal, Line, opened, read
from firmware_sim.link import Broker
from firmware_sim.shelly.catalogue import ShellyModel
from firmware_sim.shelly.settings import ShellySettings
from firmware_sim.specification import ShellySpecification, TasmotaSpecification
from firmware_sim.tasmota.catalogue import TasmotaModel
from firmware_sim.tasmota.settings import TasmotaSettings
from tests.firmware_sim.peer import Peer
from tests.support.brokers import Mosquitto

MAC = "02A1B2C3D4E5"

# No telemetry unless a test wants it.
QUIET = Timing(
    period=timedelta(hours=1),
    settle=timedelta(milliseconds=10),
    restart=timedelta(milliseconds=10),
    boot=timedelta(milliseconds=50),
    reconnect=timedelta(milliseconds=50),
    travel=timedelta(milliseconds=200),
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """A mosquitto of the test's own."""
    with Mosquitto(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def peer(broker: Mosquitto) -> Iterator[Peer]:
    """Somebody who hears everything."""
    with Peer(broker.host, broker.port) as listening:
        yield listening


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    """Where the journal lies."""
    return tmp_path / "journal.jsonl"


@pytest.fixture
def journal(journal_path: Path) -> Iterator[Journal]:
    """The journal of the run."""
    with opened(journal_path) as running:
        yield running


@pytest.fixture
def lines(journal_path: Path) -> Callable[..., list[Line]]:
    """Reads the journal: all lines, or those of a kind."""

    def of(what: str | None = None) -> list[Line]:
        return [line for line in read(journal_path) if what in {None, line.what.value}]

    return of


def in_world(
    broker: Mosquitto,
    journal: Journal,
    *,
    plan: FaultPlan | None = None,
    timing: Timing = QUIET,
    seed: str = "0",
    mqtt5: bool = False,
) -> World:
    """A world around a broker."""
    return World(
        broker=Broker(broker.host, broker.port),
        journal=journal,
        seed=seed,
        timing=timing,
        plan=plan or FaultPlan(),
        mqtt5=mqtt5,
    )


def a_shelly(
    model: ShellyModel = ShellyModel.PLUG, settings: ShellySettings | None = None
) -> ShellySpecification:
    """A Shelly."""
    return ShellySpecification(model=model, mac=MAC, settings=settings or ShellySettings())


def a_tasmota(
    model: TasmotaModel = TasmotaModel.PLUG, settings: TasmotaSettings | None = None
) -> TasmotaSpecification:
    """A Tasmota."""
    return TasmotaSpecification(model=model, mac=MAC, settings=settings or TasmotaSettings())


def flash(device: Appliance, part: str = "flash") -> Mapping[str, Json]:
    """The true state of a flash."""
    chips = device.state()["flash"]
    assert isinstance(chips, Mapping)
    chip = chips[part]
    assert isinstance(chip, Mapping)
    return chip


def runs(device: Appliance, part: str = "flash") -> Json:
    """The version that truly runs."""
    running = flash(device, part)["running"]
    assert isinstance(running, Mapping)
    return running["version"]
