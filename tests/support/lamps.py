"""Lamps that do what they are told and say so at once, and count it.

    python -m tests.support.lamps BROKER_PORT LAMPS

They speak as Tasmota does, over one connection. ``ready`` on standard output says that they listen; then
each effect is a line with the lamp's name, written before the lamp says a word about it.
"""

import sys

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion


def names(lamps: int) -> list[str]:
    """What they are called."""
    return [f"lamp-{number:03d}" for number in range(lamps)]


def _says(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _main(port: int, lamps: int) -> None:
    shows = dict.fromkeys(names(lamps), "OFF")

    def connected(client: Client, *_: object) -> None:
        for lamp, power in shows.items():
            client.publish(f"tele/{lamp}/LWT", "Online", qos=1, retain=True)
            client.publish(f"tele/{lamp}/STATE", f'{{"POWER":"{power}"}}', qos=1, retain=True)
        client.subscribe("cmnd/+/+", 1)

    def told(client: Client, _: object, message: MQTTMessage) -> None:
        lamp = message.topic.split("/")[1]
        if message.topic.split("/")[2].startswith("POWER") and message.payload:
            other = "OFF" if shows[lamp] == "ON" else "ON"
            shows[lamp] = other if message.payload == b"TOGGLE" else message.payload.decode("ascii")
            _says(lamp)
        client.publish(f"stat/{lamp}/RESULT", f'{{"POWER":"{shows[lamp]}"}}', qos=1)

    client = Client(CallbackAPIVersion.VERSION2, client_id="lamps")
    client.on_connect = connected
    client.on_subscribe = lambda *_: _says("ready")
    client.on_message = told
    client.connect("127.0.0.1", port)
    client.loop_forever()


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
