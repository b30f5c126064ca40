"""The least that carries commands out: stored, sent, seen to work, stored again, told.

    python -m bench.reference_commands --broker 1883 --cloud 8080 --hub reference ...

paho, SQLite and the standard library; as many commands at once as the queue lends. It believes whoever the
queue believes: no signature, no policy, no expiry, no order, no lock, no second try, no memory of what was
done. What the agent does beyond it is what a difference pays for.
"""

import argparse
import base64
import hashlib
import http.client
import json
import queue
import secrets
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from bench.reference import without_delay

Json = dict[str, object]
_TABLE = "CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, device TEXT, payload BLOB, done INTEGER)"


class Cloud:
    """The queue, from the hub's side."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._hub = options.hub
        self._token = options.token
        self._connection = http.client.HTTPConnection("127.0.0.1", options.cloud, timeout=60)
        self._epoch = options.epoch
        # Higher than any of an earlier start.
        self._number = time.time_ns() // 1_000_000

    def ask(self, path: str, body: object, media_type: str = "application/json") -> Json:
        """Send a request and read its answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": media_type}
        self._connection.request("POST", f"/v1/hubs/{self._hub}/{path}", json.dumps(body), headers)
        answer: Json = json.loads(self._connection.getresponse().read())
        return answer

    def tell(self, events: list[tuple[str, str | None, Json]]) -> None:
        """Upload records: type, device and data of each."""
        batch = [self._event(*event) for event in events]
        path = f"events?batch={secrets.token_hex(16)}&epoch={self._epoch}&stream=record"
        self.ask(path, batch, "application/cloudevents-batch+json")

    def _event(self, kind: str, device: str | None, data: Json) -> Json:
        self._number += 1
        return {
            "specversion": "1.0",
            "id": f"{self._hub}/{self._epoch}/record/{self._number}",
            "source": f"urn:edgeagent:hub:{self._hub}",
            "type": f"edgeagent.{kind}",
            **({} if device is None else {"subject": device}),
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "datacontenttype": "application/json",
            "timequality": "unknown",
            "boottime": 0,
            "incarnation": 1,
            "data": data,
        }


def work(
    cloud: Cloud, client: Client, echoes: "queue.SimpleQueue[str]", database: sqlite3.Connection
) -> None:
    """Lease commands and carry them out, for ever."""
    while True:
        lent = cloud.ask("commands/lease", {"most": 20, "wait_seconds": 20.0, "hold_seconds": 60.0})[
            "commands"
        ]
        if not isinstance(lent, list) or not lent:
            continue
        payloads = [
            base64.b64decode(json.loads(base64.b64decode(one["envelope"]))["payload"]) for one in lent
        ]
        commands = {command["devices"][0]: command for command in map(json.loads, payloads)}
        rows = [
            (command["id"], command["devices"][0], payload, 0)
            for command, payload in zip(commands.values(), payloads, strict=True)
        ]
        with database:
            database.executemany("INSERT OR IGNORE INTO inbox VALUES (?, ?, ?, ?)", rows)
        cloud.ask("commands/acknowledge", {"handles": [one["handle"] for one in lent]})
        for device, command in commands.items():
            client.publish(f"cmnd/{device}/POWER1", "ON" if command["arguments"]["on"] else "OFF", qos=1)
        waiting = set(commands)
        while waiting:
            waiting.discard(echoes.get())
        with database:
            database.executemany("UPDATE inbox SET done = 1 WHERE id = ?", [(row[0],) for row in rows])
        cloud.tell(
            [
                (
                    "command.receipt",
                    device,
                    {"command": name, "payload_sha256": hashlib.sha256(payload).hexdigest(), "run": 1},
                )
                for name, device, payload, _ in rows
            ]
        )


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", type=int, required=True, help="port")
    parser.add_argument("--cloud", type=int, required=True, help="port")
    parser.add_argument("--hub", required=True, help="its id")
    parser.add_argument("--token", required=True, help="its token")
    parser.add_argument("--epoch", required=True, help="20 hexadecimal digits")
    parser.add_argument("--database", type=Path, required=True)
    options = parser.parse_args()

    database = sqlite3.connect(options.database)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(_TABLE)
    echoes: queue.SimpleQueue[str] = queue.SimpleQueue()

    def connected(client: Client, *_: object) -> None:
        client.subscribe("stat/+/RESULT", 1)

    def heard(_client: Client, _data: object, message: MQTTMessage) -> None:
        echoes.put(message.topic.split("/")[1])

    client = Client(CallbackAPIVersion.VERSION2, client_id="reference", clean_session=False)
    client.on_socket_open = without_delay
    client.on_connect = connected
    client.on_message = heard
    client.connect("127.0.0.1", options.broker)
    client.loop_start()
    cloud = Cloud(options)
    cloud.tell([("hub.hello", None, {"version": "0", "boot": "reference"})])
    work(cloud, client, echoes, database)


if __name__ == "__main__":
    main()
