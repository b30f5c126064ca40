"""Lamps that do what they are told and say so at once: whatever a command takes, it is not their doing.

    python -m bench.echo BROKER_PORT LAMPS

They speak as Tasmota does, over one connection, and never sleep. ``ready`` on standard output says that they
listen. ``firmware_sim`` has lamps that behave as badly as real ones.
"""

import sys

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion


def _main(port: int, lamps: int) -> None:
    def connected(client: Client, *_: object) -> None:
        for number in range(lamps):
            client.publish(f"tele/lamp-{number:03d}/LWT", "Online", qos=1, retain=True)
        client.subscribe("cmnd/+/POWER1", 1)

    def told(client: Client, _: object, message: MQTTMessage) -> None:
        lamp, power = message.topic.split("/")[1], message.payload.decode("ascii")
        client.publish(f"stat/{lamp}/RESULT", f'{{"POWER":"{power}"}}', qos=1)

    client = Client(CallbackAPIVersion.VERSION2, client_id="lamps")
    client.on_connect = connected
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.on_message = told
    client.connect("127.0.0.1", port)
    client.loop_forever()


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
