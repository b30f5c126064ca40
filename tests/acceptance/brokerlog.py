"""What mosquitto's log tells of the agent's acknowledgements."""

import re
from typing import Final

from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import HUB

_AGENT: Final = f"edgeagent-{HUB}-telemetry"
_SENT: Final = re.compile(rf"Sending PUBLISH to {_AGENT} \(d0, q1, r0, m(\d+), '[^']*/SENSOR'")
_ACKNOWLEDGED: Final = re.compile(rf"Received PUBACK from {_AGENT} \(Mid: (\d+), RC:0\)")


def acknowledged_by_agent(log: str) -> frozenset[int]:
    """The numbers of a single plug's burst that the agent has acknowledged to the broker.

    Args:
        log: of the broker, with ``log_type all``, up to the moment in question. It names packet ids and no
            content; a burst's numbers rise by one, and one plug's messages are passed on in order.
    """
    number, unacknowledged, found = FIRST, dict[str, int](), set[int]()
    for line in log.splitlines():
        if (sent := _SENT.search(line)) is not None:
            unacknowledged[sent[1]] = number
            number += 1
        elif (acknowledged := _ACKNOWLEDGED.search(line)) is not None and acknowledged[1] in unacknowledged:
            found.add(unacknowledged.pop(acknowledged[1]))
    return frozenset(found)
