"""A hostile television, as its victims and the file server meet it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.fields import Fields, InputError, Json
from firmware_sim.fleet import Fleet
from firmware_sim.journal import Journal, Line
from firmware_sim.specification import BridgeSpecification, TelevisionSpecification, specifications
from firmware_sim.television.abuse import Server, overheard
from firmware_sim.television.settings import Deed, TelevisionSettings, television_settings
from tests.firmware_sim.conftest import MAC, QUIET, a_shelly, a_tasmota, in_world
from tests.firmware_sim.peer import Message, Peer, settled
from tests.firmware_sim.site import serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TV = "02BADBADBAD0"
TOPIC = "tasmota_C3D4E5"
PLUG = "shellyplugsg3-02a1b2c3d4e5"
IDLE = TelevisionSettings(idle=True, many=20)

Lines = Callable[..., list[Line]]


def a_television(settings: TelevisionSettings = IDLE) -> TelevisionSpecification:
    """One that does what its buttons say."""
    return TelevisionSpecification(mac=TV, settings=settings)


def does(device: Appliance, deed: Deed) -> None:
    """Let it do something."""
    device.press(list(Deed).index(deed) + 1)


async def knows(lines: Lines, *topics: str) -> None:
    """Wait until the television has heard these."""

    def heard() -> bool:
        found = {line.details["topic"] for line in lines("heard") if line.appliance.startswith("television")}
        return found >= set(topics)

    await eventually(heard)


def told(lines: Lines, deed: Deed) -> list[Line]:
    """What it has written down of a deed."""
    return [line for line in lines("abused") if line.details["deed"] == deed.value]


def answers(line: Line) -> Sequence[Json]:
    """What a server answered."""
    found = line.details["answers"]
    assert isinstance(found, list)
    return found


def saying(text: str) -> Callable[[Message], bool]:
    """Whether a message holds this text."""
    return lambda message: text in message.text


async def test_it_says_what_others_would_say_had_they_been_updated_and_gone(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    world = in_world(broker, journal)
    async with (
        Appliance(a_television(), world) as television,
        Appliance(a_tasmota(), world),
        Appliance(a_shelly(), world),
        Appliance(BridgeSpecification(mac=MAC), world),
    ):
        await knows(
            lines,
            f"tele/{TOPIC}/LWT",
            f"{PLUG}/online",
            "zigbee2mqtt/bridge/state",
            "zigbee2mqtt/lamp/availability",
        )
        does(television, Deed.SPOOF)
        gone = await peer.hears(f"tele/{TOPIC}/LWT", saying("Offline"))
        await peer.hears(f"stat/{TOPIC}/UPGRADE", saying("Successful"))
        await peer.hears(f"stat/{TOPIC}/STATUS2", saying("99.0.0"))
        await peer.hears(f"{PLUG}/events/rpc", saying("ota_success"))
        await peer.hears("zigbee2mqtt/bridge/state", saying("offline"))
        await peer.hears("zigbee2mqtt/lamp", saying('"installed_version": 99'))

    assert gone.retain is True


async def test_it_leaves_retained_commands_that_devices_obey(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    world = in_world(broker, journal)
    async with Appliance(a_television(), world) as television, Appliance(a_tasmota(), world) as plug:
        await eventually(settled(peer))
        await knows(lines, f"tele/{TOPIC}/LWT")
        does(television, Deed.PLANT)
        planted = await peer.hears(f"cmnd/{TOPIC}/OtaUrl")
        await eventually(lambda: journal.count(plug.id, "toggle") == 1)

    assert (planted.retain, planted.text) == (True, "http://192.0.2.66/evil.bin")


async def test_it_answers_for_others_with_the_ids_that_it_has_overheard(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    world = in_world(broker, journal)
    async with Appliance(a_television(), world) as television:
        peer.asks(PLUG, "Shelly.GetDeviceInfo", 4711)
        peer.says("z2m/bridge/request/device/ota_update/update", json.dumps({"id": "x", "transaction": "t9"}))
        await knows(lines, f"{PLUG}/rpc", "z2m/bridge/request/device/ota_update/update")
        does(television, Deed.ANSWER)
        answer = await peer.answered(4711)
        updated = await peer.hears("z2m/bridge/response/device/ota_update/update")

    assert answer["result"] == {"ver": "99.0.0", "id": PLUG}
    assert (updated.json["transaction"], updated.json["status"]) == ("t9", "ok")


async def test_it_says_again_what_it_has_heard_and_not_what_it_has_said(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_television(), in_world(broker, journal)) as television:
        peer.says("cmnd/x/POWER", b"\xffON")
        await knows(lines, "cmnd/x/POWER", "television/lwt")
        does(television, Deed.REPLAY)
        await peer.hears("cmnd/x/POWER", after=1)

    assert [line.details["messages"] for line in told(lines, Deed.REPLAY)] == [1]
    assert [message.payload for message in peer.heard("cmnd/x/POWER")] == [b"\xffON"] * 2


async def test_a_flood_is_small_large_deep_and_no_text(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_television(), in_world(broker, journal)) as television:
        does(television, Deed.FLOOD)
        await eventually(lambda: len(peer.heard("television")) == 20)

    sizes = {len(message.payload) for message in peer.heard("television")}
    assert (min(sizes), max(sizes) > 65_000) == (2, True)


async def test_it_abuses_the_file_server_that_it_has_heard_of(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with (
        serving({"secret/t.bin": b"x" * 100_000}) as site,
        Appliance(a_television(), in_world(broker, journal)) as television,
    ):
        peer.says("cmnd/plug/OtaUrl", f"{site.url}/secret/t.bin")
        await knows(lines, "cmnd/plug/OtaUrl")
        for deed in (Deed.WANDER, Deed.CROWD, Deed.DAWDLE):
            does(television, deed)
        await eventually(lambda: len(lines("abused")) == 3)

    wandered, crowded, dawdled = (
        answers(told(lines, deed)[0]) for deed in (Deed.WANDER, Deed.CROWD, Deed.DAWDLE)
    )
    assert len(wandered) == 14
    assert {"404", "405"} <= {str(answer).partition(" ")[0] for answer in wandered}
    assert crowded[0] == "opened 20"
    assert str(dawdled[0]).startswith("bytes ")


async def test_it_asks_for_ranges_that_are_none(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with (
        serving({"t.bin": b"x" * 1000}) as site,
        Appliance(a_television(), in_world(broker, journal)) as television,
    ):
        peer.says("stat/plug/RESULT", json.dumps({"OtaUrl": f"{site.url}/t.bin"}))
        await knows(lines, "stat/plug/RESULT")
        does(television, Deed.RANGES)
        await eventually(lambda: lines("abused"))
        asked = [one for _, _, one in site.asked]

    assert len(answers(lines("abused")[0])) == 7
    assert max(len(one or "") for one in asked) > 1000


async def test_by_itself_it_does_one_deed_after_another(
    broker: Mosquitto, journal: Journal, lines: Lines
) -> None:
    settings: Json = {"deeds": {"spoof": True, "replay": True}}
    lively = replace(QUIET, period=timedelta(milliseconds=50))

    fleet = specifications([{"model": "hostile-television", "mac": TV, "settings": settings}])
    async with Fleet(fleet, in_world(broker, journal, timing=lively)):
        await eventually(lambda: len(lines("abused")) >= 4)

    deeds = [line.details["deed"] for line in lines("abused")][:4]
    assert (deeds.count("spoof"), deeds.count("replay")) == (2, 2)


def test_it_goes_to_no_server_that_is_not_nearby() -> None:
    def named(url: str) -> list[Server]:
        return list(overheard(b'{"url":"' + url.encode() + b'"}'))

    assert named("http://127.0.0.1:8080/a/b.bin") == [Server("127.0.0.1", 8080, "/a/b.bin")]
    assert named("http://192.168.1.4/x") == [Server("192.168.1.4", 80, "/x")]
    for far in (
        "http://8.8.8.8/x",
        "http://ota.tasmota.com/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1:99999/x",
        "http://1.2.3/x",
        "http://999.1.1.1/x",
    ):
        assert named(far) == []


@pytest.mark.parametrize(
    "settings",
    [{"deeds": {"murder": True}}, {"many": 0}, {"topic": "a/#"}, {"address": "tv"}, {"deeds": ["spoof"]}],
)
def test_wrong_settings_are_refused(settings: Json) -> None:
    with pytest.raises(InputError):
        television_settings(Fields(settings, "settings"))


async def test_it_has_no_more_buttons_than_deeds(broker: Mosquitto, journal: Journal) -> None:
    async with Appliance(a_television(), in_world(broker, journal)) as television:
        with pytest.raises(InputError):
            television.press(len(Deed) + 1)
