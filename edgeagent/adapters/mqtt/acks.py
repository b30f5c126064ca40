"""Which acknowledgements may leave, in receive order.

A client answers in the order in which the messages came (MQTT 5 section 4.6); some brokers hang up on
one that does not. So an acknowledgement that is given early waits for those before it, whoever gives
them. A message that is never acknowledged holds up all after it, until its connection ends: that is
the promise, not a fault.
"""

from collections.abc import Sequence

from edgeagent.contracts.mqtt import Inbound


class Unacknowledged:
    """The QoS 1 messages of one life of a connection that no PUBACK has left for."""

    def __init__(self) -> None:
        self._waiting: dict[int, Inbound] = {}
        self._settled: set[int] = set()

    def came(self, messages: Sequence[Inbound]) -> None:
        """Note messages, in receive order."""
        for message in messages:
            if message.qos:
                self._waiting[message.packet_id] = message

    def settle(self, messages: Sequence[Inbound]) -> list[int]:
        """Note that these may be acknowledged.

        One of an earlier life, or settled before, is passed over: its packet id may be another's by now.

        Returns:
            The packet ids to acknowledge now, in receive order.
        """
        waiting, settled = self._waiting, self._settled
        for message in messages:
            if waiting.get(message.packet_id) is message:
                settled.add(message.packet_id)
        ready: list[int] = []
        for packet_id in waiting:
            if packet_id not in settled:
                break
            ready.append(packet_id)
        for packet_id in ready:
            del waiting[packet_id]
        settled.difference_update(ready)
        return ready
