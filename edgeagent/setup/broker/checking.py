"""Looking at somebody's broker: what a guest needs of it, and what nobody can promise on it (SPEC N1).

Only looks: it connects under a name of its own, subscribes for some seconds, publishes nothing, writes
nothing. Of what MQTT does not tell, mosquitto's configuration is read where it may be; else it is said that
it is not known. Each check that is not ok has the lines that would mend it; whoever owns the broker decides.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from edgeagent.adapters.mqtt.broker_config import BrokerDoor, read_door, read_limits
from edgeagent.adapters.mqtt.probe import Probe, speaks_only_311, takes
from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.adapters.mqtt.words import FAILURE, GRANTED_QOS_1
from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Inbound
from edgeagent.contracts.reports.broker import BrokerCheck, BrokerReport
from edgeagent.contracts.reports.health import Level, worst_first
from edgeagent.core.profile.match import covers
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.values import dataclass

_VERSION: Final = "$SYS/broker/version"
_DROPPED: Final = "$SYS/broker/publish/messages/dropped"
_MOST_NAMES: Final = 5
_SMALLEST: Final = 64 * 1024
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_NOT_ALLOWED: Final = "add the topics to the rules of the agent's login"
_OWN_FILE: Final = "/etc/mosquitto/conf.d/local.conf"
_LOGIN_LINES: Final = ["allow_anonymous false", "password_file /etc/mosquitto/passwd"]

CANNOT: Final = (
    "What it keeps for the agent is in its memory: a power cut loses what the agent has not taken yet.",
    "What a device reports with QoS 0 may be lost on its way.",
)
"""What no broker promises."""
NOBODY_PROVES: Final = "Whoever can connect can speak for any device, and command any."
"""What a broker without names or without rules does not promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the agent needs of a broker.

    Attributes:
        readings: topic filters to hear.
        commands: filters on which devices take commands; empty while no device is admitted.
        listening: for how long to listen for others' commands.
        configuration: mosquitto's, where it is the broker's; None where it is not known.
    """

    readings: Sequence[str]
    commands: Sequence[str]
    listening: timedelta = timedelta(seconds=2)
    configuration: Path | None = None


def check_broker(settings: MqttSettings, wanted: Wanted, clock: Clock) -> BrokerReport:
    """Look at a broker; takes a few seconds.

    Args:
        settings: where it is, and as whom the agent comes.
        wanted: what the agent needs of it.
        clock: time.
    """
    checks, cannot = asyncio.run(_looks(settings, wanted, clock))
    scheme = "mqtt" if settings.tls is None else "mqtts"
    return BrokerReport(
        at=datetime.now(UTC),
        broker=f"{scheme}://{settings.host}:{settings.port}",
        checks=worst_first(checks),
        cannot=[*cannot, *CANNOT],
    )


async def _looks(
    settings: MqttSettings, wanted: Wanted, clock: Clock
) -> tuple[list[BrokerCheck], Sequence[str]]:
    door = None if wanted.configuration is None else read_door(wanted.configuration)
    probe = Probe(settings, clock)
    try:
        welcome = await probe.open()
    except LinkError as why:
        return [await _unreachable(settings, why), *_limits(wanted)], []
    try:
        codes = await probe.hear([*wanted.readings, *wanted.commands, _VERSION, _DROPPED])
        await probe.stays(wanted.listening)
    except LinkError as why:
        return [_check("listening", Level.CRITICAL, f"it hangs up while we listen: {why}")], []
    finally:
        probe.leave()
    anonymous = await takes(replace(settings, username=None, password=None), clock)
    checks = [
        _check("broker", Level.OK, f"speaks MQTT 5{_version(probe.came)}"),
        _topics(codes),
        _system(probe.came),
        _size(welcome.largest),
        _anonymous(anonymous=anonymous),
        *_listener(door),
        _rules(door),
        _retained(probe.came, wanted),
        _foreign(probe.came, wanted),
        *_limits(wanted),
    ]
    unproven = anonymous or door is None or not door.rules
    return checks, [NOBODY_PROVES] if unproven else []


def _check(name: str, level: Level, summary: str, advice: str = "", lines: Sequence[str] = ()) -> BrokerCheck:
    return BrokerCheck(name=name, level=level, summary=summary, advice=advice, lines=list(lines))


async def _unreachable(settings: MqttSettings, why: LinkError) -> BrokerCheck:
    """Why it could not be looked at."""
    where = f"{settings.host}:{settings.port}"
    if why.trouble in {Trouble.BROKEN_ANSWER, Trouble.UNREACHABLE} and await speaks_only_311(settings):
        told = f"{where} speaks MQTT 3.1.1 and not MQTT 5, which the agent needs ({why})"
        return _check("broker", Level.CRITICAL, told, "use mosquitto 2 or another broker that speaks MQTT 5")
    advice = {
        Trouble.LOGIN: "give the agent a login there: mosquitto_passwd /etc/mosquitto/passwd edgeagent",
        Trouble.TLS: "look at [broker.tls], the broker's certificate and this machine's clock",
    }.get(why.trouble, "systemctl status mosquitto, and look at host and port")
    told = str(why) if str(why).startswith(where) else f"{where}: {why}"
    missing = why.trouble is Trouble.UNREACHABLE and settings.host in _THIS_MACHINE
    lines = [f"listener {settings.port} {settings.host}"] if missing else []
    return _check("broker", Level.CRITICAL, told, advice, lines)


def _version(came: Sequence[Inbound]) -> str:
    said = [message.payload for message in came if message.topic == _VERSION]
    text = said[-1].decode("ascii", "replace")[:60] if said else ""
    return f", {text}" if text.isprintable() and text else ""


def _topics(codes: dict[str, int]) -> BrokerCheck:
    asked = {topic: code for topic, code in codes.items() if not topic.startswith("$")}
    refused = [topic for topic, code in asked.items() if code >= FAILURE]
    weak = [topic for topic, code in asked.items() if code < GRANTED_QOS_1]
    if refused:
        told = f"does not let us hear {_named(refused)}"
        return _check(
            "topics", Level.CRITICAL, told, _NOT_ALLOWED, [f"topic read {name}" for name in refused]
        )
    if weak:
        told = f"sends with QoS 0 only: {_named(weak)}"
        return _check("topics", Level.WARNING, told, "nothing is promised for it", ["max_qos 2"])
    return _check(
        "topics",
        Level.OK,
        f"grants all {len(asked)} that the agent wants; mosquitto grants also what its rules then hold back",
    )


def _system(came: Sequence[Inbound]) -> BrokerCheck:
    dropped = [message.payload for message in came if message.topic == _DROPPED]
    if dropped and dropped[-1].isdigit() and int(dropped[-1]):
        return _check(
            "dropped",
            Level.WARNING,
            f"it has dropped {int(dropped[-1])} messages since its start, for all its clients",
            "if they were the agent's, it keeps too few for who is away",
            ["max_queued_messages 100000"],
        )
    if not any(message.topic.startswith("$SYS/") for message in came):
        return _check(
            "dropped",
            Level.WARNING,
            "its $SYS topics cannot be read: nobody would know that it drops messages",
            "let the agent's login read them",
            ["topic read $SYS/broker/#"],
        )
    return _check("dropped", Level.OK, "drops nothing, and would say so ($SYS is readable)")


def _size(largest: int | None) -> BrokerCheck:
    if largest is not None and largest < _SMALLEST:
        told = f"takes packets of {largest} bytes at most; a bridge's list of devices has hundreds of KB"
        return _check("size", Level.WARNING, told, "raise it", ["max_packet_size 1048576"])
    word = "of any size" if largest is None else f"of up to {largest} bytes"
    return _check("size", Level.OK, f"takes packets {word}")


def _anonymous(*, anonymous: bool) -> BrokerCheck:
    if not anonymous:
        return _check("anonymous", Level.OK, "lets in only who has a login")
    return _check(
        "anonymous",
        Level.WARNING,
        "lets anybody in: whoever reaches it can speak for any device",
        f"give each device a login, then add to {_OWN_FILE} and restart it",
        _LOGIN_LINES,
    )


def _listener(door: BrokerDoor | None) -> list[BrokerCheck]:
    """Whether devices of the network reach it; nothing where its configuration cannot be read."""
    if door is None:
        return []
    if not door.is_local:
        return [_check("listener", Level.OK, "names the addresses that it listens on")]
    told = "listens on this machine only, since it names no listener: no device of the network reaches it"
    advice = f"give each device a login, then add to {_OWN_FILE} and restart it"
    return [_check("listener", Level.WARNING, told, advice, ["listener 1883", *_LOGIN_LINES])]


def _rules(door: BrokerDoor | None) -> BrokerCheck:
    if door is None:
        told = "not known whether it says which topics a client may use: its configuration cannot be read"
        return _check("rules", Level.UNKNOWN, told, "name it as [broker] config_file, or ask who runs it")
    if not door.rules:
        told = "no rules of topics: any client can speak for any device, and command any"
        advice = f"write rules (mosquitto.conf(5), acl_file), and add to {_OWN_FILE}"
        return _check("rules", Level.WARNING, told, advice, ["acl_file /etc/mosquitto/acl"])
    return _check("rules", Level.OK, "has rules of topics; what they say is not judged here")


def _retained(came: Sequence[Inbound], wanted: Wanted) -> BrokerCheck:
    if not wanted.commands:
        return _check("retained", Level.OK, "no device is admitted, so no command topic is known")
    found = sorted(
        {message.topic for message in _commands(came, wanted) if message.retain and message.payload}
    )
    if not found:
        return _check("retained", Level.OK, "no retained command lies there")
    advice = "clear them while the devices are off: mosquitto_pub -r -n -t TOPIC"
    return _check(
        "retained", Level.WARNING, f"retained commands act at each reconnect: {_named(found)}", advice
    )


def _foreign(came: Sequence[Inbound], wanted: Wanted) -> BrokerCheck:
    seconds = wanted.listening.total_seconds()
    found = sorted({message.topic for message in _commands(came, wanted) if not message.retain})
    if not found:
        return _check("foreign", Level.OK, f"nobody has commanded a device in {seconds:g} s")
    told = f"somebody else commands devices: {_named(found)} within {seconds:g} s"
    return _check(
        "foreign", Level.WARNING, told, "two who command one device undo each other's work: agree on one"
    )


def _commands(came: Sequence[Inbound], wanted: Wanted) -> list[Inbound]:
    return [message for message in came if any(covers(each, message.topic) for each in wanted.commands)]


def _limits(wanted: Wanted) -> list[BrokerCheck]:
    """What its configuration says of how much it keeps."""
    limits = None if wanted.configuration is None else read_limits(wanted.configuration)
    if limits is None:
        told = "not known how much it keeps for who is away: its configuration cannot be read"
        return [_check("limits", Level.UNKNOWN, told, "name it as [broker] config_file, or ask who runs it")]
    if limits.largest is not None and limits.largest < _SMALLEST:
        told = f"drops messages of more than {limits.largest} bytes, without a word to most clients"
        return [
            _check("limits", Level.WARNING, told, "raise it, or take the line away", ["message_size_limit 0"])
        ]
    if not limits.concerns:
        return [_check("limits", Level.OK, "keeps what it promises")]
    lines = [concern.rpartition(": ")[2] for concern in limits.concerns]
    advice = f"add to {_OWN_FILE} and restart it"
    return [_check("limits", Level.WARNING, " ".join(limits.concerns), advice, lines)]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
