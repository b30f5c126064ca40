"""CONNECT, CONNACK and DISCONNECT: who we say we are, and what the broker says to that."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from paho.mqtt.client import ConnectFlags, DisconnectFlags
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgeagent.adapters.mqtt.poison import UnreadableError
from edgeagent.adapters.mqtt.words import FAILURE, refusal
from edgeagent.contracts.mqtt import Session
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.values import dataclass

_WINDOW: Final = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a connection is to the broker.

    Attributes:
        client_id: its name.
        session: which of ours.
        epoch: which life of it.
        window: our Receive Maximum.
        expiry: how long the broker keeps the session; nothing to start with a clean one and leave none.
        afresh: whether the broker is to forget what it keeps of it, and keep it from now on.
    """

    client_id: str
    session: Session
    epoch: int
    window: int
    expiry: timedelta
    afresh: bool = False

    @property
    def clean_start(self) -> bool:
        """Whether the broker is to forget the session of that name."""
        return self.afresh or not self.expiry


@dataclass(frozen=True, slots=True)
class Welcome:
    """What the broker's CONNACK said.

    Attributes:
        session_present: whether it had kept the session.
        window: its Receive Maximum, for what we publish.
        largest: its Maximum Packet Size; None for no limit.
    """

    session_present: bool
    window: int
    largest: int | None


def connect_properties(identity: Identity, *, largest: int) -> Properties:
    """What we tell the broker with CONNECT (MQTT 5 section 3.1.2.11).

    Topic Alias Maximum is left at 0, so each message names its topic.
    """
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no annotation
    properties.SessionExpiryInterval = int(identity.expiry.total_seconds())
    properties.ReceiveMaximum = identity.window
    properties.MaximumPacketSize = largest
    return properties


def greeting(
    flags: ConnectFlags, reason: ReasonCode, properties: Properties | None, *, client_id: str
) -> Welcome:
    """Read a CONNACK.

    Raises:
        LinkError: the broker does not take us, or cannot do what we need.
    """
    said = _said(properties)
    if reason.value >= FAILURE:
        raise _refusal(reason, said, client_id)
    if said.get("MaximumQoS", 2) == 0:
        raise LinkError(Trouble.BROKEN_ANSWER, "the broker has no QoS 1")
    largest = said.get("MaximumPacketSize")
    window = said.get("ReceiveMaximum", _WINDOW)
    return Welcome(
        session_present=flags.session_present,
        window=window if isinstance(window, int) else _WINDOW,
        largest=largest if isinstance(largest, int) else None,
    )


def farewell(
    flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None, *, client_id: str
) -> LinkError:
    """Why the connection ended: by a DISCONNECT of the broker, or by what paho found."""
    if flags.is_disconnect_packet_from_server:
        return _refusal(reason, _said(properties), client_id)
    match reason.getName():
        case "Keep alive timeout":
            return LinkError(Trouble.UNREACHABLE, "no answer to a ping")
        case "Protocol error":
            return UnreadableError("the broker sent what is no MQTT 5")
        case _:
            return LinkError(Trouble.UNREACHABLE, "connection lost")


def _refusal(reason: ReasonCode, said: Mapping[str, object], client_id: str) -> LinkError:
    return refusal(reason.value, reason.getName(), str(said.get("ReasonString", "")), client_id=client_id)


def _said(properties: Properties | None) -> Mapping[str, object]:
    """The properties of a packet by name."""
    if properties is None:
        return {}
    found: Mapping[str, object] = properties.json()  # type: ignore[no-untyped-call]  # paho has no annotation
    return found
