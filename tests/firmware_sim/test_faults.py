"""Each fault, as an outsider meets it, and as the journal tells it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.faults import Fault, FaultPlan, Kind, Moment, Way
from firmware_sim.journal import Journal, Line
from firmware_sim.shelly.catalogue import ShellyModel
from firmware_sim.tasmota.catalogue import TasmotaModel
from tests.firmware_sim.conftest import MAC, QUIET, a_shelly, a_tasmota, in_world
from tests.firmware_sim.peer import Message, Peer
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "tasmota_C3D4E5"
POWER = f"cmnd/{TOPIC}/POWER"
RESULT = f"stat/{TOPIC}/RESULT"
WORD = f"stat/{TOPIC}/POWER"
PLUG = "shellyplugsg3-02a1b2c3d4e5"
COVER = "shellyplus2pm-02a1b2c3d4e5"

Lines = Callable[..., list[Line]]
SOON = timedelta(milliseconds=100)


def saying(text: str) -> Callable[[Message], bool]:
    """Whether a message is this text."""
    return lambda message: message.text == text


def going_wrong(*faults: Fault) -> FaultPlan:
    """A plan."""
    return FaultPlan(faults)


def faults_of(lines: Lines) -> list[list[object]]:
    """What the journal says struck each command."""
    found = [line.details["faults"] for line in lines("heard")]
    return [list(entry) for entry in found if isinstance(entry, list)]


def has_heard(lines: Lines, count: int) -> bool:
    """Whether so many messages have come."""
    return len(lines("heard")) == count


async def test_a_dropped_command_is_heard_by_the_journal_only(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.DROP, topic=POWER, nth=1))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        peer.says(POWER, "TOGGLE")
        peer.says(POWER, "ON")
        await peer.hears(WORD, saying("ON"))

    assert [line.details["action"] for line in lines("effect")] == ["power"]
    assert faults_of(lines) == [["drop"], []]


async def test_a_dropped_answer_leaves_the_effect(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.DROP, way=Way.SAID, topic=WORD))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        peer.says(POWER, "ON")
        await peer.hears(RESULT, lambda message: message.json == {"POWER": "ON"})

    assert peer.heard(WORD) == []
    assert journal.count(MAC, "power") == 1
    assert {line.details["topic"] for line in lines("fault")} == {WORD}


async def test_a_delayed_command_is_carried_out_later_than_it_was_heard(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.DELAY, topic=POWER, nth=1, delay=SOON, delay_most=2 * SOON))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        peer.says(POWER, "ON")
        peer.says(POWER, "OFF")
        await peer.hears(WORD, saying("ON"))

    assert [line.details["command"] for line in lines("effect")] == [2, 1]
    assert faults_of(lines) == [["delay"], []]


async def test_a_doubled_command_acts_twice(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.DUPLICATE, topic=POWER))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)) as device:
        peer.says(POWER, "TOGGLE")
        await eventually(lambda: journal.count(MAC, "toggle") == 2)
        state = device.state()

    assert state["parts"] == {"POWER": {"power": False}}
    assert [line.details["command"] for line in lines("effect")] == [1, 1]


async def test_a_doubled_answer_comes_twice(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    plan = going_wrong(Fault(kind=Kind.DUPLICATE, way=Way.SAID, topic="peer/rpc"))

    async with Appliance(a_shelly(), in_world(broker, journal, plan=plan)):
        peer.asks(PLUG, "Switch.Toggle", id=0)
        await peer.hears("peer/rpc", after=1)

    assert journal.count(PLUG, "toggle") == 1


async def test_a_reordered_command_is_carried_out_after_the_next_one(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    minute = timedelta(minutes=1)
    plan = going_wrong(Fault(kind=Kind.REORDER, topic=POWER, nth=1, delay=minute))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)) as device:
        peer.says(POWER, "ON")
        peer.says(POWER, "OFF")
        await eventually(lambda: journal.count(MAC, "power") == 2)
        state = device.state()

    assert [line.details["command"] for line in lines("effect")] == [2, 1]
    assert state["parts"] == {"POWER": {"power": True}}


async def test_what_nobody_overtakes_comes_all_the_same(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    plan = going_wrong(Fault(kind=Kind.REORDER, topic=POWER, delay=SOON))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        peer.says(POWER, "ON")
        await peer.hears(WORD, saying("ON"))


async def test_a_garbled_answer_is_neither_json_nor_utf_8(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    plan = going_wrong(Fault(kind=Kind.GARBLE, way=Way.SAID, topic=f"tele/{TOPIC}/STATE"))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        told = await peer.hears(f"tele/{TOPIC}/STATE")

    with pytest.raises(UnicodeDecodeError):
        told.payload.decode()


async def test_a_mute_device_acts_and_says_nothing_while_its_connection_stands(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    busy = replace(QUIET, period=timedelta(milliseconds=30))

    async with Appliance(a_tasmota(), in_world(broker, journal, timing=busy)) as device:
        await peer.hears(f"tele/{TOPIC}/SENSOR")
        device.set_faults([Fault(kind=Kind.SILENT, way=Way.SAID)])
        with Peer(broker.host, broker.port, ("stat/#", f"tele/{TOPIC}/STATE")) as latecomer:
            latecomer.says(POWER, "ON")
            await eventually(lambda: journal.count(MAC, "power") == 1)
            assert device.connected
            # What it said just before it went mute may have been on its way.
            latecomer.forgets()
            device.heal()
            # The first word is said long after the act, and true.
            first = await latecomer.hears("#")

    assert first.topic == f"tele/{TOPIC}/STATE"
    assert first.json["POWER"] == "ON"


async def test_a_deaf_device_goes_on_talking_and_does_nothing(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    busy = replace(QUIET, period=timedelta(milliseconds=30))
    plan = going_wrong(Fault(kind=Kind.SILENT, way=Way.HEARD))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan, timing=busy)):
        peer.says(POWER, "ON")
        await eventually(lambda: lines("heard"))
        peer.forgets()
        state = await peer.hears(f"tele/{TOPIC}/STATE", after=1)

    assert state.json["POWER"] == "OFF"
    assert journal.count(MAC, "power") == 0
    assert faults_of(lines) == [["silent"]]


async def test_a_command_may_strike_it_mute_for_a_while(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    plan = going_wrong(Fault(kind=Kind.SILENT, way=Way.SAID, topic=POWER, nth=2, lasting=3 * SOON))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        peer.says(POWER, "ON")
        await peer.hears(WORD, saying("ON"))
        peer.says(POWER, "OFF")
        await eventually(lambda: journal.count(MAC, "power") == 2)

        def asked_again() -> bool:
            peer.says(POWER, "")
            return bool([message for message in peer.heard(WORD) if message.text == "OFF"][1:])

        await eventually(asked_again)

    assert [message.text for message in peer.heard(WORD)][:3] == ["OFF", "ON", "OFF"]


@pytest.mark.parametrize(
    ("first", "told", "truth"),
    [
        pytest.param("ON", "OFF", True, id="as if nothing had happened"),
        pytest.param("OFF", "ON", False, id="as if something had happened"),
    ],
)
async def test_a_wrong_echo_tells_another_value_than_it_took_until_it_is_asked_again(
    *, first: str, told: str, truth: bool, broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    plan = going_wrong(Fault(kind=Kind.WRONG_ECHO, topic=POWER, nth=1))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)) as device:
        await peer.hears(f"tasmota/discovery/{MAC}/sensors")
        peer.forgets()
        peer.says(POWER, first)
        lie = await peer.hears(RESULT)
        word = await peer.hears(WORD)
        state = device.state()
        peer.says(POWER, "")
        truth_told = await peer.hears(WORD, after=1)

    assert (lie.json, word.text) == ({"POWER": told}, told)
    assert state["parts"] == {"POWER": {"power": truth}}
    assert truth_told.text == first


async def test_a_shelly_lies_in_its_notification_and_its_status_tells_the_truth(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    plan = going_wrong(Fault(kind=Kind.WRONG_ECHO, nth=1))

    async with Appliance(a_shelly(), in_world(broker, journal, plan=plan)):
        peer.asks(PLUG, "Switch.Set", 1, id=0, on=True)
        lie = await peer.hears(f"{PLUG}/events/rpc", lambda message: message.json["method"] == "NotifyStatus")
        peer.asks(PLUG, "Switch.GetStatus", 2, id=0)
        truth = (await peer.answered(2))["result"]

    assert lie.json["params"]["switch:0"]["output"] is False  # type: ignore[index,call-overload]  # an object
    assert isinstance(truth, dict)
    assert truth["output"] is True


async def test_a_liar_lies_to_the_end_of_the_way(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    plan = going_wrong(Fault(kind=Kind.WRONG_ECHO, nth=1))

    async with Appliance(a_shelly(ShellyModel.COVER), in_world(broker, journal, plan=plan)) as device:
        peer.asks(COVER, "Cover.GoToPosition", 1, id=0, pos=60)
        await eventually(lambda: journal.count(COVER, "arrived") == 1)
        arrived = await peer.hears(
            f"{COVER}/events/rpc", lambda message: b"current_pos" in message.payload, after=2
        )
        state = device.state()

    assert arrived.json["params"]["cover:0"]["current_pos"] == 50  # type: ignore[index,call-overload]  # an object
    assert state["parts"] == {"cover:0": {"position": 60, "target": None}}


@pytest.mark.parametrize(
    ("moment", "acted", "answered"),
    [
        pytest.param(Moment.BEFORE, False, False, id="before it acts"),
        pytest.param(Moment.ACTED, True, False, id="after it has acted and before it answers"),
        pytest.param(Moment.ANSWERED, True, True, id="after it has answered"),
    ],
)
async def test_a_reboot_strikes_at_the_nth_command_at_the_moment_asked_for(
    *,
    moment: Moment,
    acted: bool,
    answered: bool,
    broker: Mosquitto,
    peer: Peer,
    journal: Journal,
    lines: Lines,
) -> None:
    plan = going_wrong(Fault(kind=Kind.REBOOT, topic=f"{PLUG}/rpc", nth=2, moment=moment))

    async with Appliance(a_shelly(), in_world(broker, journal, plan=plan)) as device:
        peer.asks(PLUG, "Switch.GetStatus", 1, id=0)
        await peer.answered(1)
        peer.asks(PLUG, "Switch.Toggle", 2, id=0)
        await eventually(lambda: len(lines("listening")) == 2)
        peer.asks(PLUG, "Switch.GetStatus", 3, id=0)
        await peer.answered(3)
        state = device.state()

    online = [message.text for message in peer.heard(f"{PLUG}/online")]
    assert online[:3] == ["true", "false", "true"]
    assert journal.count(PLUG, "toggle") == int(acted)
    assert state["parts"] == {"switch:0": {"power": acted}}
    assert bool([message for message in peer.heard("peer/rpc") if message.json["id"] == 2]) == answered
    reboot = next(line for line in lines("effect") if line.details["action"] == "reboot")
    assert reboot.details["cause"] == "fault"
    assert faults_of(lines)[1] == ["reboot"]


async def test_a_reboot_may_come_at_a_time_and_last(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.REBOOT, at=SOON, lasting=timedelta(hours=1)))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)) as device:
        await peer.hears(f"tele/{TOPIC}/LWT", saying("Offline"))
        state = device.state()

    assert (state["boots"], state["connected"]) == (1, False)
    assert journal.count(MAC, "reboot") == 1
    assert [line.details["fault"] for line in lines("fault")] == ["reboot"]


async def test_a_lost_connection_lets_the_will_speak_and_forgets_nothing(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.DISCONNECT, topic=POWER, nth=1, moment=Moment.ACTED))

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        peer.says(POWER, "ON")
        await peer.hears(f"tele/{TOPIC}/LWT", saying("Offline"))
        await eventually(lambda: len(lines("listening")) == 2)
        peer.says(POWER, "")
        await peer.hears(WORD, saying("ON"))

    assert lines("online")[1].details["fresh"] is False
    assert journal.count(MAC, "reboot") == 0


async def test_a_power_cut_takes_timers_and_what_was_on_its_way(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    minute = timedelta(minutes=1)
    slow = replace(QUIET, travel=minute)
    plan = going_wrong(Fault(kind=Kind.REORDER, topic=f"{COVER}/rpc", nth=2, delay=minute))

    async with Appliance(
        a_shelly(ShellyModel.COVER), in_world(broker, journal, plan=plan, timing=slow)
    ) as device:
        peer.asks(COVER, "Cover.Open", 1, id=0)
        await peer.answered(1)
        peer.asks(COVER, "Cover.Close", 2, id=0)
        await eventually(lambda: len(lines("heard")) == 2)
        device.reboot()
        await eventually(lambda: len(lines("listening")) == 2)
        peer.asks(COVER, "Cover.GetStatus", 3, id=0)
        status = (await peer.answered(3))["result"]

    assert isinstance(status, dict)
    assert status["state"] in {"closed", "stopped"}
    assert "target_pos" not in status
    assert [line.details["action"] for line in lines("effect")] == ["position", "reboot", "stop"]


async def test_the_times_of_a_fault_are_kept(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    plan = going_wrong(
        Fault(kind=Kind.DROP, topic=POWER, times=2),
        Fault(kind=Kind.DROP, topic=POWER, begins=timedelta(hours=1)),
        Fault(kind=Kind.DROP, topic=POWER, probability=0),
        Fault(kind=Kind.DROP, topic=POWER, appliance="shelly*"),
    )

    async with Appliance(a_tasmota(), in_world(broker, journal, plan=plan)):
        for _ in range(5):
            peer.says(POWER, "TOGGLE")
        await eventually(lambda: journal.count(MAC, "toggle") == 3)


async def test_two_lamps_of_one_seed_lose_the_same_commands(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    plan = going_wrong(Fault(kind=Kind.DROP, topic="cmnd/#", probability=0.5))

    for run in (1, 2):
        async with Appliance(
            a_tasmota(TasmotaModel.LIGHT), in_world(broker, journal, plan=plan, seed="seven")
        ):
            for level in range(20):
                peer.says(f"cmnd/{TOPIC}/Dimmer", str(level + 1))
            await eventually(partial(has_heard, lines, 20 * run))

    fates = faults_of(lines)
    assert fates[:20] == fates[20:]
    assert 0 < fates[:20].count(["drop"]) < 20
