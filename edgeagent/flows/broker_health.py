"""How the broker stands, for health: reached, what it keeps and drops, what lies in it, whose rules it has.

The rules of a broker of the hub's own are written by root (``edgeagent broker apply``); the agent may not
even read them. It is told their digests, and sees by them that a device was admitted, moved or forgotten
since.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from edgeagent.contracts.broker_access import Rule
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.broker_rules import digest_of
from edgeagent.core.profile.access import access_of
from edgeagent.errors import RejectedError
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.devices import Device, Devices
from edgeagent.flows.store_health import in_words
from edgeagent.flows.watching.poison import poison_check
from edgeagent.ids import Digest
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.links import HELD

_PATIENCE: Final = timedelta(minutes=1)
_MOST_NAMES: Final = 5
_REACHED: Final = (
    "check that mosquitto runs (systemctl status mosquitto) and [broker] in the configuration; "
    "edgeagent broker check"
)
_APPLY: Final = "sudo edgeagent broker plan, then sudo edgeagent broker apply"


def broker_checks(bus: DeviceBus, watch: BrokerWatch, devices: Devices, now: timedelta) -> list[Check]:
    """All that is known of the broker.

    Args:
        bus: both connections to it.
        watch: what was seen when it was looked at.
        devices: those that are admitted.
        now: boot time.
    """
    return [
        *(_link(bus, session, now) for session in Session),
        _limits(watch.concerns),
        _drops(watch.dropped),
        poison_check({session: bus.state(session) for session in Session}, now),
        _retained(watch.found),
        _topics(bus),
        _unsafe(devices.all()),
        _access(watch, devices.all()),
    ]


def _link(bus: DeviceBus, session: Session, now: timedelta) -> Check:
    link = bus.state(session)
    name = f"broker-{session}"
    if link.connected:
        return Check(name=name, level=Level.OK, summary="connected")
    lasted = now - link.since
    tries = f"{in_words(lasted)}, {link.attempts} tries"
    return Check(
        name=name,
        level=Level.CRITICAL if lasted > _PATIENCE else Level.WARNING,
        summary=f"not connected for {tries}: {link.why or 'connecting'}",
        advice=_REACHED if link.why != HELD else "see database: it is connected again when that takes writes",
    )


def _limits(concerns: Sequence[str] | None) -> Check:
    if concerns is None:
        return Check(
            name="broker-limits",
            level=Level.OK,
            summary="not checkable: the broker's configuration cannot be read",
            advice="name it as [broker] config_file, and let the agent's user read it",
        )
    if not concerns:
        return Check(name="broker-limits", level=Level.OK, summary="the broker keeps what it promises")
    return Check(
        name="broker-limits",
        level=Level.WARNING,
        summary="; ".join(concerns),
        advice="give mosquitto's configuration these lines and restart it; edgeagent broker check names them",
    )


def _drops(dropped: int | None) -> Check:
    if not dropped:
        word = "not checkable: the broker does not say" if dropped is None else "the broker drops nothing"
        return Check(name="broker-drops", level=Level.OK, summary=word)
    return Check(
        name="broker-drops",
        level=Level.WARNING,
        summary=f"the broker has dropped {dropped} messages since its start, for all its clients",
        advice="max_queued_messages 100000 in mosquitto's configuration, if they were the agent's",
    )


def _retained(found: Mapping[str, Device]) -> Check:
    if not found:
        return Check(name="retained", level=Level.OK, summary="no retained command lies at the broker")
    names = _named(sorted({device.id for device in found.values()}))
    return Check(
        name="retained",
        level=Level.WARNING,
        summary=f"retained commands act at each reconnect of: {names}",
        advice="clear them while the device is off: mosquitto_pub -r -n -t TOPIC; the log has the topics",
    )


def _topics(bus: DeviceBus) -> Check:
    refused = {topic: code for session in Session for topic, code in bus.refused(session).items()}
    if not refused:
        return Check(name="topics", level=Level.OK, summary="the broker lets us hear all that we want")
    return Check(
        name="topics",
        level=Level.WARNING,
        summary=f"the broker refuses or weakens {len(refused)} topics: {_named(sorted(refused))}",
        advice="let the agent's login read them, with QoS 1",
    )


def _unsafe(devices: Sequence[Device]) -> Check:
    names = [device.id for device in devices if device.unsafe]
    if not names:
        return Check(name="qos0", level=Level.OK, summary="no device reports without acknowledgement")
    return Check(
        name="qos0",
        level=Level.OK,
        summary=f"report with QoS 0, so that nothing is promised: {_named(names)}",
        advice="set them to QoS 1 where their firmware can",
    )


def _access(watch: BrokerWatch, devices: Sequence[Device]) -> Check:
    """Whether the rules of a broker of our own are those of the devices that are admitted."""
    name = "broker-access"
    if not watch.is_managed:
        told = "a guest: whether a client may speak for another is not ours to say"
        if watch.is_open:
            told = "a guest, and the broker lets in anybody: any client can speak for any device"
        return Check(name=name, level=Level.OK, summary=told, advice="edgeagent broker check")
    rules = watch.rules()
    if rules is None:
        told = "the broker has no rules of ours yet, or what tells of them cannot be read"
        return Check(name=name, level=Level.WARNING, summary=told, advice=_APPLY)
    own = {device.id: _rule(rules, device) for device in devices}
    live = {rule.digest for rule in own.values() if rule is not None}
    left = [rule.login for rule in rules.values() if rule.digest not in live and not rule.is_expected]
    # One that was made for who was still to come is made anew for who has come: then it goes with its device.
    old = [device for device, rule in own.items() if rule is None or rule.is_expected]
    wrong = [f"its rules are not those of: {_named(old)}"] if old else []
    wrong += [f"who is not admitted any more may still come in: {_named(left)}"] if left else []
    if wrong:
        return Check(name=name, level=Level.WARNING, summary="; ".join(wrong), advice=_APPLY)
    mute = [device for device, rule in own.items() if rule is not None and not rule.has_password]
    if mute:
        advice = f"sudo edgeagent broker logins add {mute[0]}"
        return Check(name=name, level=Level.WARNING, summary=f"have no login: {_named(mute)}", advice=advice)
    return Check(name=name, level=Level.OK, summary="each device has a login, and its own topics")


def _rule(rules: Mapping[Digest, Rule], device: Device) -> Rule | None:
    """That of a device as it is now; None where there is none, also since there can be none."""
    try:
        return rules.get(Digest(digest_of(access_of(device.compiled))))
    except RejectedError:
        return None


def _named(names: Sequence[str]) -> str:
    """The first few of some names."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
