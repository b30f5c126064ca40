"""Admitted devices and their shadows: what the hub knows survives, what is forgotten is gone."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.event import EventTime, EventType, Stream
from edgeagent.core.shadow import Heard, Shadow, Value, etag
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.ids import DeviceId, Label, ReadingName
from edgeagent.store import devices, outbox
from edgeagent.store import shadow as shadows
from edgeagent.store.database import Database, Transaction
from edgeagent.store.devices import Admitted
from edgeagent.store.outbox import NewEvent
from edgeagent.store.shadow import Change
from tests.support.stores import scratch

LAMP, PLUG = DeviceId("lamp"), DeviceId("plug")
POWER, LEVEL = ReadingName("power"), ReadingName("level")
HEARD = Heard(at=1_800_000_000_000_000, boot=1, retained=False)

values: st.SearchStrategy[Value] = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)


@dataclass(frozen=True)
class Always:
    """Every change is told at once."""

    deadband: float = 0
    min_interval: timedelta = timedelta(0)
    max_interval: timedelta | None = None


def admitted(device: DeviceId = LAMP) -> Admitted:
    """A device like any other."""
    return Admitted(
        device=device,
        label=Label("Küche 🙂"),
        profile="tasmota",
        parameters={"topic": "plug_12", "relays": 2, "words": ["EIN", "AUS"]},
        at="2027-03-01T12:00:00Z",
        by="uid:1000",
    )


def change_of(device: DeviceId, **readings: Value) -> Change:
    """What is to be stored of a device that has just told these readings."""
    shadow = Shadow(0, etag({}))
    for name, value in readings.items():
        shadow.hear_state(ReadingName(name), value, Always(), HEARD)
    shadow.seal()
    return Change(device, shadow, frozenset(shadow.state))


async def with_lamp(store: Database) -> None:
    """Admit the lamp."""
    await store.write(partial(devices.admit, admitted=admitted(), etag=etag({})))


@pytest.mark.requirement("M4", "M11")
async def test_an_admitted_device_comes_back_as_it_was_with_an_empty_shadow(store: Database) -> None:
    await with_lamp(store)

    assert await store.read(devices.load) == [admitted()]
    assert await store.read(shadows.load) == {LAMP: Shadow(0, etag({}))}


@pytest.mark.requirement("M4")
async def test_a_device_is_admitted_once_and_the_second_try_changes_nothing(store: Database) -> None:
    await with_lamp(store)
    other = Admitted(
        device=LAMP, label=Label("Other"), profile="shelly", parameters={}, at="2027-03-02T12:00:00Z", by="x"
    )

    with pytest.raises(RejectedError, match="admitted already"):
        await store.write(partial(devices.admit, admitted=other, etag="0" * 16))

    assert await store.read(devices.load) == [admitted()]
    assert await store.read(shadows.load) == {LAMP: Shadow(0, etag({}))}


@pytest.mark.requirement("M4")
async def test_a_forgotten_device_takes_its_shadow_along_and_may_come_anew(store: Database) -> None:
    await with_lamp(store)
    await store.write(partial(devices.admit, admitted=admitted(PLUG), etag=etag({})))
    await store.write(partial(shadows.save, changes=[change_of(LAMP, power=True)]))

    await store.write(partial(devices.forget, device=LAMP))

    assert await store.read(devices.load) == [admitted(PLUG)]
    assert await store.read(shadows.load) == {PLUG: Shadow(0, etag({}))}
    await with_lamp(store)
    assert (await store.read(shadows.load))[LAMP] == Shadow(0, etag({}))


@pytest.mark.requirement("M4")
async def test_a_device_that_is_not_admitted_cannot_be_forgotten(store: Database) -> None:
    await with_lamp(store)

    with pytest.raises(RejectedError, match="not admitted"):
        await store.write(partial(devices.forget, device=PLUG))

    assert await store.read(devices.load) == [admitted()]


@pytest.mark.requirement("C1")
@given(power=values, level=values)
def test_a_shadow_comes_back_with_its_values_versions_and_etag(power: Value, level: Value) -> None:
    change = change_of(LAMP, power=power, level=level)
    with scratch() as tx:
        devices.admit(tx, admitted(), etag=etag({}))
        shadows.save(tx, [change])

        found = shadows.load(tx)[LAMP]

    assert (found.version, found.etag) == (2, change.shadow.etag)
    assert {name: (held.value, type(held.value), held.version) for name, held in found.state.items()} == {
        POWER: (power, type(power), 1),
        LEVEL: (level, type(level), 2),
    }
    found.seal()
    assert found.etag == change.shadow.etag


@pytest.mark.requirement("M2")
async def test_after_a_restart_no_reading_is_live_and_what_was_not_told_is_known(store: Database) -> None:
    await with_lamp(store)
    change = change_of(LAMP, power=True, level=3)
    change.shadow.told([POWER], 1)
    await store.write(partial(shadows.save, changes=[change]))

    state = (await store.read(shadows.load))[LAMP].state

    assert {name: (held.told, held.live_at, held.told_at) for name, held in state.items()} == {
        POWER: (True, None, None),
        LEVEL: (False, None, None),
    }


@pytest.mark.requirement("C4")
async def test_only_the_readings_that_changed_are_written(store: Database) -> None:
    await with_lamp(store)
    change = change_of(LAMP, power=True, level=3)
    await store.write(partial(shadows.save, changes=[change]))
    change.shadow.hear_state(POWER, value=False, reporting=Always(), heard=HEARD)
    change.shadow.hear_state(LEVEL, value=4, reporting=Always(), heard=HEARD)

    await store.write(partial(shadows.save, changes=[Change(LAMP, change.shadow, frozenset({POWER}))]))

    found = (await store.read(shadows.load))[LAMP]
    assert {name: held.value for name, held in found.state.items()} == {POWER: False, LEVEL: 3}
    assert found.version == 4


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("fails", [False, True], ids=["the commit holds", "the commit fails"])
async def test_a_changed_state_and_its_event_are_saved_together_or_not_at_all(
    store: Database, *, fails: bool
) -> None:
    await with_lamp(store)
    event = NewEvent(Stream.STATE, EventType.STATE, LAMP, EventTime(1, None, 1), b'{"power":true}')

    def both(tx: Transaction) -> None:
        shadows.save(tx, [change_of(LAMP, power=True)])
        outbox.append(tx, [event], incarnation=1)
        if fails:
            raise RejectedError("not this time")

    if fails:
        with pytest.raises(RejectedError):
            await store.write(both)
    else:
        await store.write(both)

    found = (await store.read(shadows.load))[LAMP]
    depth = (await store.read(outbox.depths))[Stream.STATE]
    assert (found.version, depth.events, depth.next) == ((0, 0, 1) if fails else (1, 1, 2))


@pytest.mark.requirement("M4")
async def test_the_last_message_of_a_forgotten_device_does_not_bring_it_back(store: Database) -> None:
    await with_lamp(store)

    await store.write(
        partial(shadows.save, changes=[change_of(PLUG, power=True), change_of(LAMP, power=True)])
    )

    found = await store.read(shadows.load)
    assert found.keys() == {LAMP}
    assert found[LAMP].version == 1
    assert await store.read(lambda db: db.rows("SELECT 1 FROM shadow_readings WHERE device = 'plug'")) == []


@pytest.mark.requirement("C1")
async def test_a_shadow_needs_a_device(store: Database) -> None:
    with pytest.raises(BrokenInvariantError, match="FOREIGN KEY"):
        await store.write(lambda tx: tx.execute("INSERT INTO shadows VALUES ('ghost', 0, '')"))
