"""The least that keeps the promise: acknowledge after the commit, forget after the upload's proof.

    python -m bench.reference --broker 1883 --cloud 8080 --database out.db

paho, SQLite and the standard library, in three threads: one receives, one writes, one uploads. MQTT 3.1.1,
with which paho takes half the time of MQTT 5. It stores payloads as they come: it decodes nothing, knows no
device, recognises no redelivery, and ends at the first surprise. What the agent does beyond it is what a
difference pays for.
"""

import argparse
import gzip
import http.client
import json
import queue
import secrets
import socket
import sqlite3
import threading
import time
from pathlib import Path

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from typing_extensions import override

_BATCH = 500
_TABLE = "CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB NOT NULL)"


class Writer(threading.Thread):
    """Owns the database: messages in, uploaded ones out, many under one commit."""

    def __init__(self, client: Client, options: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._options = options
        # A message that came, or the id up to which all is proven uploaded.
        self.work: queue.SimpleQueue[MQTTMessage | int] = queue.SimpleQueue()
        self.stored = threading.Semaphore(0)

    @override
    def run(self) -> None:
        """Commit, then acknowledge."""
        database = sqlite3.connect(self._options.database, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(_TABLE)
        self.stored.release()
        while True:
            group = self._group()
            messages = [one for one in group if isinstance(one, MQTTMessage)]
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT INTO outbox (payload) VALUES (?)", [(message.payload,) for message in messages]
            )
            for uploaded in (one for one in group if isinstance(one, int)):
                database.execute("DELETE FROM outbox WHERE id <= ?", (uploaded,))
            database.execute("COMMIT")
            for message in messages:
                self._client.ack(message.mid, 1)
            if messages:
                self.stored.release(len(messages))

    def _group(self) -> list[MQTTMessage | int]:
        """What shares a commit."""
        options, group = self._options, [self.work.get()]
        deadline = time.monotonic() + options.commit_linger
        while len(group) < options.commit_most:
            left = deadline - time.monotonic()
            try:
                group.append(self.work.get(block=left > 0, timeout=max(left, 0)))
            except queue.Empty:
                break
        return group


class Uploader(threading.Thread):
    """Sends what is stored, oldest first."""

    def __init__(self, writer: Writer, options: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        self._writer = writer
        self._options = options
        self._epoch = secrets.token_hex(10)

    @override
    def run(self) -> None:
        """Upload, and have forgotten what the far side proves to hold."""
        self._writer.stored.acquire()
        database = sqlite3.connect(f"{self._options.database.as_uri()}?mode=ro", uri=True)
        sent = 0
        while True:
            rows = database.execute(
                "SELECT id, payload FROM outbox WHERE id > ? ORDER BY id LIMIT ?", (sent, _BATCH)
            ).fetchall()
            if not rows:
                self._wait()
            elif self._upload(rows):
                sent = rows[-1][0]
                self._writer.work.put(sent)
            else:
                time.sleep(0.2)

    def _wait(self) -> None:
        """Wait until something is stored, and then for a batch of it or until it has waited long enough."""
        stored, deadline = self._writer.stored, None
        for _ in range(_BATCH):
            if not stored.acquire(timeout=None if deadline is None else max(0, deadline - time.monotonic())):
                return
            deadline = deadline or time.monotonic() + self._options.upload_linger

    def _upload(self, rows: list[tuple[int, bytes]]) -> bool:
        events = b",".join(b'{"id":%d,"data":%b}' % row for row in rows)
        batch = secrets.token_hex(16)
        connection = http.client.HTTPConnection("127.0.0.1", self._options.cloud, timeout=10)
        try:
            connection.request(
                "POST",
                f"/v1/hubs/reference/events?batch={batch}&epoch={self._epoch}&stream=telemetry",
                gzip.compress(b"[" + events + b"]", 6, mtime=0),
                {"Content-Encoding": "gzip", "Content-Type": "application/json"},
            )
            answer = json.loads(connection.getresponse().read())
        except OSError:
            return False
        finally:
            connection.close()
        return bool(answer["batch"] == batch and answer["taken"] == [[rows[0][0], rows[-1][0]]])


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", type=int, required=True, help="port")
    parser.add_argument("--cloud", type=int, required=True, help="port")
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--commit-linger", type=float, default=0.02, help="seconds; 0 commits what is there")
    parser.add_argument("--commit-most", type=int, default=256, help="messages in one commit")
    parser.add_argument("--upload-linger", type=float, default=0.0, help="seconds")
    options = parser.parse_args()

    client = Client(CallbackAPIVersion.VERSION2, client_id="reference", clean_session=False, manual_ack=True)
    writer = Writer(client, options)
    writer.start()
    Uploader(writer, options).start()
    client.on_socket_open = without_delay
    client.on_connect = subscribe
    client.on_message = lambda _client, _data, message: writer.work.put(message)
    client.connect("127.0.0.1", options.broker)
    client.loop_forever()


def without_delay(_client: Client, _data: object, opened: object) -> None:
    """Send acknowledgements at once: with Nagle's algorithm some wait for 40 ms."""
    if isinstance(opened, socket.socket):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def subscribe(client: Client, *_: object) -> None:
    """Ask for the telemetry of all devices."""
    client.subscribe("tele/+/data", 1)


if __name__ == "__main__":
    main()
