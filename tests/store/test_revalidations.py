"""The list of devices that are to be read afresh: one row each, taken away by whoever read what was asked."""

from collections.abc import Iterator

import pytest

from edgeagent.clock import BootId
from edgeagent.ids import CommandId, DeviceId, label
from edgeagent.store import devices, revalidations
from edgeagent.store.database import Transaction
from edgeagent.store.devices import Admitted
from tests.support.stores import scratch

pytestmark = pytest.mark.requirement("C3")

TV, LAMP = DeviceId("tv-1"), DeviceId("lamp-1")
BOOT = BootId("a-boot")


@pytest.fixture
def tx() -> Iterator[Transaction]:
    """A database in which two devices are admitted."""
    with scratch() as made:
        for device in (TV, LAMP):
            admitted = Admitted(
                device=device, label=label("A"), profile="thing", parameters={}, at="2026-01-01", by="uid:0"
            )
            devices.admit(made, admitted, etag="0" * 16)
        yield made


def asks(tx: Transaction, device: DeviceId, run: int) -> None:
    """A command of that run was stale."""
    revalidations.ask(tx, device, run=run, command=CommandId(f"c-{run}"))


def test_whoever_waits_longest_comes_first(tx: Transaction) -> None:
    asks(tx, TV, 4)
    asks(tx, LAMP, 7)

    assert [(each.device, each.run, each.attempts, each.due) for each in revalidations.load(tx)] == [
        (TV, 4, 0, None),
        (LAMP, 7, 0, None),
    ]


def test_a_device_that_is_asked_for_twice_is_on_the_list_once_and_its_tries_begin_anew(
    tx: Transaction,
) -> None:
    asks(tx, TV, 4)
    [first] = revalidations.load(tx)
    assert revalidations.postpone(tx, first, (5000, BOOT))
    assert [(each.attempts, each.due) for each in revalidations.load(tx)] == [(1, (5000, BOOT))]

    asks(tx, TV, 9)

    [later] = revalidations.load(tx)
    assert (later.run, later.command, later.attempts, later.due) == (9, "c-9", 0, None)


def test_what_was_read_for_an_earlier_command_takes_nothing_off_the_list(tx: Transaction) -> None:
    asks(tx, TV, 4)
    [earlier] = revalidations.load(tx)
    asks(tx, TV, 9)

    assert not revalidations.postpone(tx, earlier, (5000, BOOT))
    assert not revalidations.end(tx, earlier)
    [later] = revalidations.load(tx)
    assert (later.run, later.attempts) == (9, 0)

    assert revalidations.end(tx, later)
    assert not revalidations.end(tx, later)
    assert revalidations.load(tx) == []


def test_a_device_that_is_forgotten_is_on_no_list(tx: Transaction) -> None:
    asks(tx, TV, 4)
    devices.forget(tx, TV)
    assert revalidations.load(tx) == []

    asks(tx, TV, 5)

    assert revalidations.load(tx) == []
