"""A hub with its own broker and some admitted devices, for those who configure it."""

import random
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from edgeagent.contracts.floormark import EpochReason
from edgeagent.core.shadow import etag
from edgeagent.ids import device_id, label, new_epoch
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.planning import BrokerPlan, plan_broker
from edgeagent.store import devices, meta
from edgeagent.store.database import Transaction
from edgeagent.store.devices import Admitted
from edgeagent.store.meta import Life
from tests.support.own_broker import OwnBroker
from tests.support.stores import HUB_MIGRATIONS, use

PLUG = "AABBCC000001"
OTHER = "AABBCC000002"


def admits(state: Path, device: str, profile: str = "tasmota", **parameters: JsonValue) -> None:
    """Have a device be admitted, as far as the database tells."""
    given: Mapping[str, JsonValue] = parameters or {"topic": f"plug-{device[-1]}"}
    admitted = Admitted(
        device=device_id(device),
        label=label(device),
        profile=profile,
        parameters=dict(given),
        at="2026-01-02T03:04:05Z",
        by="a person",
    )
    state.mkdir(exist_ok=True)

    def work(tx: Transaction) -> None:
        if meta.life(tx) is None:
            meta.begin_life(tx, Life(epoch=new_epoch(0, random.getrandbits(32)), reason=EpochReason.FIRST))
        devices.admit(tx, admitted, etag=etag({}))

    use(state / "hub.db", HUB_MIGRATIONS, work)


def forgets(state: Path, device: str) -> None:
    """Have a device be let go."""
    use(state / "hub.db", HUB_MIGRATIONS, lambda tx: devices.forget(tx, device_id(device)))


def planned(config: Path) -> BrokerPlan:
    """What is to be written; the broker is ours."""
    plan = plan_broker(config)
    assert plan is not None
    return plan


def in_force(config: Path, broker: OwnBroker) -> None:
    """Configure the broker, and start it."""
    apply_plan(planned(config), broker, restart=True)
