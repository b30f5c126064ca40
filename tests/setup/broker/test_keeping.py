"""Logins whose devices cannot be read now: they stay, with their topics, until a person says otherwise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.contracts.floormark import EpochReason
from edgeagent.errors import RejectedError
from edgeagent.ids import device_id, hub_id, new_epoch
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.login_desk import add_login, all_logins, remove_login
from edgeagent.store import floormarks, meta
from edgeagent.store.database import Transaction
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.meta import Life
from tests.setup.broker.building import OTHER, PLUG, admits, forgets, in_force, planned
from tests.support.agents import AgentProcess
from tests.support.device import Device
from tests.support.own_broker import OwnBroker
from tests.support.stores import HUB_MIGRATIONS, use

pytestmark = [pytest.mark.requirement("H5", "M4"), pytest.mark.slow]

PLUGS = [PLUG, OTHER]
LAMP = "0x00158d0001"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OwnBroker]:
    with OwnBroker(tmp_path / "etc", tmp_path / "state") as own:
        yield own


@pytest.fixture
def config(tmp_path: Path, broker: OwnBroker) -> Path:
    """Of a hub with two plugs that have logins."""
    config = broker.configure(tmp_path / "config.toml")
    for plug in PLUGS:
        admits(tmp_path / "state", plug)
    in_force(config, broker)
    for plug in PLUGS:
        add_login(config, broker, device_id(plug), None, {})
    return config


def logins(config: Path) -> list[str]:
    return [login.login for login in all_logins(config)]


def told(config: Path, word: str) -> list[str]:
    """The notes of a plan in which a word stands."""
    return [note for note in planned(config).notes if word in note]


def set_aside(state: Path) -> None:
    """As the agent does with a damaged database."""
    (state / "hub.db").rename(state / "hub.db.damaged-1")


def renames_profile(state: Path, device: str) -> None:
    """Have a device be of a profile that is not there."""
    use(state / "hub.db", HUB_MIGRATIONS, lambda tx: _other_profile(tx, device))


def _other_profile(tx: Transaction, device: str) -> None:
    tx.execute("UPDATE devices SET profile = 'gone' WHERE device = :device", {"device": device})


def test_without_its_database_a_hub_keeps_all_logins_and_their_topics(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    before = broker.files()
    set_aside(tmp_path / "state")

    assert [note.partition(" stays")[0] for note in told(config, "restore a backup")] == [
        f"the login {plug}" for plug in PLUGS
    ]
    apply_plan(planned(config), broker, restart=False)
    after = broker.files()
    assert {name for name in before if before[name] != after[name]} == {"edgeagent/acl", "edgeagent/access"}
    # Of the agent's own, what it hears of no device that it knows is gone.
    theirs = [files["edgeagent/acl"].partition(f"\nuser {PLUG}".encode())[2] for files in (before, after)]
    assert theirs[0] == theirs[1] != b""

    third = add_login(config, broker, device_id("AABBCC000003"), "tasmota", {"topic": "plug-3"})
    assert logins(config) == [*PLUGS, third.login]
    rules = (broker.folder / "edgeagent" / "acl").read_text()
    assert all(f"topic write tele/{topic}/#" in rules for topic in ("plug-1", "plug-2", "plug-3"))


def test_devices_that_are_admitted_again_one_by_one_have_the_logins_that_they_had(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    passwords = (broker.folder / "edgeagent" / "passwd").read_text()
    set_aside(state)

    for place, plug in enumerate(PLUGS):
        admits(state, plug)
        apply_plan(planned(config), broker, restart=False)
        assert logins(config) == PLUGS
        assert len(told(config, "restore a backup")) == len(PLUGS) - 1 - place
    assert (broker.folder / "edgeagent" / "passwd").read_text() == passwords
    assert planned(config).changed == []

    # From then on it is this database that tells who is forgotten.
    forgets(state, OTHER)
    apply_plan(planned(config), broker, restart=False)
    assert logins(config) == [PLUG]


def test_a_login_that_is_not_wanted_any_more_is_taken_away_by_name(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    set_aside(tmp_path / "state")

    remove_login(config, broker, PLUG)
    assert logins(config) == [OTHER]
    assert "tele/plug-2/#" in (broker.folder / "edgeagent" / "acl").read_text()
    remove_login(config, broker, OTHER)

    assert logins(config) == []
    assert told(config, "restore a backup") == []


def test_a_backup_that_is_older_than_an_admission_does_not_take_the_login_away(
    config: Path, tmp_path: Path
) -> None:
    """Neither before the agent's start, which begins a new epoch, nor after it."""
    state = tmp_path / "state"

    def ahead(tx: Transaction) -> None:
        meta.next_incarnation(tx)
        now = floormarks.mark_of(tx, hub_id("venue-7"), 1)
        FloorFile(state, hub_id("venue-7")).write(now.model_copy(update={"incarnation": 7}))

    use(state / "hub.db", HUB_MIGRATIONS, ahead)
    forgets(state, OTHER)
    assert planned(config).changed == []

    new = Life(epoch=new_epoch(1, 1), reason=EpochReason.RESTORED)
    use(state / "hub.db", HUB_MIGRATIONS, lambda tx: meta.begin_life(tx, new))
    (state / "floor.a").unlink()
    assert planned(config).changed == []
    assert len(told(config, f"the login {OTHER} stays")) == 1


def test_a_device_whose_profile_is_missing_keeps_its_login_and_its_topics(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    key = add_login(config, broker, device_id("AABBCC000003"), "tasmota", {"topic": "plug-3"}).password or ""
    admits(tmp_path / "state", "AABBCC000003", topic="plug-3")
    apply_plan(planned(config), broker, restart=False)
    renames_profile(tmp_path / "state", "AABBCC000003")

    assert planned(config).changed == []
    assert told(config, "not admitted any more") == []
    assert told(config, "AABBCC000003") == [
        "AABBCC000003 is left out: there is no profile 'gone'",
        "the login AABBCC000003 stays as it is: its device is left out",
    ]
    forgets(tmp_path / "state", OTHER)
    apply_plan(planned(config), broker, restart=False)

    assert logins(config) == [PLUG, "AABBCC000003"]
    with Device(broker.port, login=("AABBCC000003", key)) as plug:
        assert plug.may_say("tele/plug-3/SENSOR", b"{}")
        assert not plug.may_say("tele/plug-1/SENSOR", b"{}")


def test_the_login_of_a_bridge_stays_for_a_device_behind_it_that_is_left_out(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    admits(tmp_path / "state", LAMP, "zigbee2mqtt", friendly_name="lamp")
    add_login(config, broker, device_id(LAMP), None, {})
    admits(tmp_path / "state", "0x00158d0002", "zigbee2mqtt", friendly_name="other")
    apply_plan(planned(config), broker, restart=False)
    forgets(tmp_path / "state", LAMP)

    use(
        tmp_path / "state" / "hub.db",
        HUB_MIGRATIONS,
        lambda tx: tx.execute("UPDATE devices SET parameters = '{}' WHERE profile = 'zigbee2mqtt'"),
    )

    assert len(told(config, "is left out")) == 2
    assert planned(config).changed == []


def test_rules_that_somebody_has_changed_are_not_taken_for_what_a_lost_device_may_do(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    set_aside(tmp_path / "state")
    rules = broker.folder / "edgeagent" / "acl"
    rules.write_text(rules.read_text().replace("topic write tele/plug-1/#", "topic write #"))
    before = broker.files()

    with pytest.raises(RejectedError, match=f"the login {PLUG}: its topics need .*; edgeagent broker plan"):
        apply_plan(planned(config), broker, restart=False)

    assert broker.files() == before


def test_a_hub_at_work_tells_a_device_that_was_forgotten_from_one_that_its_new_database_misses(
    broker: OwnBroker, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    agent = AgentProcess(folder, broker.sections)
    try:
        in_force(agent.config, broker)
        agent.start()
        for plug, topic in zip(PLUGS, ("plug-1", "plug-2"), strict=True):
            agent.admit_by_hand(plug, "tasmota", topic=topic)
            add_login(agent.config, broker, device_id(plug), None, {})
        assert agent.run("devices", "forget", OTHER).returncode == 0
        apply_plan(planned(agent.config), broker, restart=False)
        assert logins(agent.config) == [PLUG]

        agent.stop()
        agent.database.rename(agent.database.with_name("set-aside"))
        agent.start()
        apply_plan(planned(agent.config), broker, restart=False)
        assert logins(agent.config) == [PLUG]
        assert len(told(agent.config, f"the login {PLUG} stays")) == 1
    finally:
        agent.close()
