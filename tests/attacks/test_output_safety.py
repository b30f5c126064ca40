"""Foreign text in terminals, logs, JSON, topics and file names: devices, a queue and words that mean harm.

The agent, its broker and the command line are real; whatever a device, the queue or a policy says, a
terminal gets printable characters and line ends, the log one JSON object a line.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from shutil import copy
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.policy import POLICY_TYPE
from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.devices import DeviceReport, DevicesReport
from edgeagent.core.envelope import sign, unproven_payload
from edgeagent.ids import hub_id
from tests.attacks.harm import IDS, TEXTS, TOPIC_LEVELS, log_lines, marks
from tests.cli.building import Said, typed
from tests.support.agents import ROOT, AgentProcess
from tests.support.agents_keys import Keys
from tests.support.brokers import Mosquitto, wait_until
from tests.support.device import Device
from tests.support.portals import Asked, Portal, response
from tests.support.private import write_private
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("V5"), pytest.mark.threat("T45")]

HUB: Final = hub_id("venue-7")
TELEVISION: Final = Path(__file__).parents[1] / "flows" / "television.toml"
LAST: Final = "02FFFFFFFFFF"


@dataclass(frozen=True, slots=True)
class Attacked:
    """A hub, and a device of its broker that means harm.

    Attributes:
        agent: the hub's agent.
        device: whoever speaks as any device.
    """

    agent: AgentProcess
    device: Device

    def announces(self, mac: str, /, **fields: JsonValue) -> None:
        """A plug announces itself as Tasmota does, with some fields as it likes."""
        config: dict[str, JsonValue] = {
            "ver": 1, "mac": mac, "t": mac.lower(), "ft": "%prefix%/%topic%/", "tp": ["cmnd", "stat", "tele"],
            "dn": "Plug", "md": "Plug", "sw": "14.1.0", "hn": "plug", "rl": [1], "lt_st": 0,
            "so": {"4": 0}, "state": ["OFF", "ON"], "onln": "Online", "ofln": "Offline",
        }  # fmt: skip
        self.device.says(f"tasmota/discovery/{mac}/config", json.dumps(config | fields).encode())

    def has_worked_through(self) -> DevicesReport:
        """What the agent knows once it has taken in all that was said."""
        self.announces(LAST)
        wait_until(lambda: LAST in {each.device for each in self.agent.devices().proposals}, "the last plug")
        return self.agent.devices()

    def prints(self, *words: str) -> str:
        """What a command prints; it is harmless, and so is the log."""
        said = self.types(*words)
        assert marks(said.out + said.err) == []
        log_lines(self.agent.log)
        return said.out + said.err

    def types(self, *words: str) -> Said:
        """What a command comes to."""
        return typed("--config", str(self.agent.config), *words)


def sections(folder: Path, broker: Mosquitto, keys: Keys) -> str:
    """A configuration with a policy and a television."""
    folder.mkdir(parents=True)
    (folder / "own").mkdir()
    copy(TELEVISION, folder / "own")
    (folder / "policy.json").write_bytes(keys.policy(HUB))
    return (
        f'[broker]\nhost = "{broker.host}"\nport = {broker.port}\n[profiles]\ndirectory = "own"\n'
        f'[policy]\nfile = "policy.json"\nsigner = "{keys.root.public.hex()}"\n'
    )


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    """A hub that runs, with one television admitted."""
    with (
        Mosquitto(tmp_path / "broker") as broker,
        Device(broker.port) as device,
        closing(AgentProcess(tmp_path / "hub", sections(tmp_path / "hub", broker, Keys()))) as agent,
    ):
        agent.start()
        agent.wait_for_broker()
        agent.admit_by_hand("tv-1", "television", topic="tv-1")
        device.says("tv-1/lwt", b"online")
        yield Attacked(agent, device)


@pytest.mark.requirement("M4")
def test_whatever_a_device_calls_itself_is_listed_without_harm(attacked: Attacked) -> None:
    for number, text in enumerate(TEXTS.values(), start=1):
        attacked.announces(f"02000000{number:04X}", dn=text, md=text, sw=text, hn=text)

    known = attacked.has_worked_through()
    shown = attacked.prints("devices", "list")
    as_json = json.loads(attacked.prints("--json", "devices", "list"))

    # One that is longer than any name is no announcement.
    assert len(as_json["proposals"]) == len(known.proposals) == len(TEXTS)
    assert all(each.label.isprintable() and len(each.label) <= 64 for each in known.proposals)
    assert len(shown.splitlines()) == len(known.devices) + len(known.proposals) + 5
    assert [each.device for each in known.devices] == ["tv-1"]


@pytest.mark.requirement("M4")
@pytest.mark.threat("T31", "T32")
def test_what_is_no_id_or_no_level_of_a_topic_is_not_even_proposed(attacked: Attacked) -> None:
    for text in IDS.values():
        attacked.announces("020000000001", mac=text)
        if text and text.isprintable() and not set(text) & set("/+#") and len(text) < 99:
            attacked.announces(text)
    attacked.announces("a\u202eb")
    for number, text in enumerate(TOPIC_LEVELS.values(), start=1):
        attacked.announces(f"0200000A{number:04X}", t=text)
        # A prefix may have several levels, or none.
        if text not in {"", "a/b"}:
            attacked.announces(f"0200000B{number:04X}", tp=["cmnd", text, "tele"])
    attacked.device.says("tasmota/discovery/020000000001/config", b'{"ver": 1, "mac": "\\ud800"}')
    attacked.device.says("tasmota/discovery/020000000001/config", b'\xef\xbb\xbf{"ver": 1}')
    attacked.device.says("tasmota/discovery/020000000001/config", b'{"dn": "\xff\xfe"}')

    known = attacked.has_worked_through()

    assert [each.device for each in known.proposals] == [LAST]
    assert attacked.agent.device("tv-1").device == "tv-1"
    attacked.prints("devices", "list")


@pytest.mark.requirement("M4")
@pytest.mark.threat("T31", "T32")
def test_nobody_can_admit_a_device_under_such_an_id_topic_or_label(attacked: Attacked) -> None:
    before = query(attacked.agent.database, "SELECT device FROM devices")
    named = ("devices", "admit", "tv-2", "--profile", "television")

    for text in IDS.values():
        said = attacked.types("devices", "admit", "--profile", "television", "--", text)
        assert (said.status, marks(said.err)) == (1, []), text
        assert "not a device id" in said.err
    for text in TOPIC_LEVELS.values():
        said = attacked.types(*named, "--label", "x", "--set", f"topic={json.dumps(text)}")
        assert (said.status, marks(said.err)) == (1, []), text
        assert "topic" in said.err or "Too Large" in said.err
    for text in TEXTS.values():
        said = attacked.types(*named, f"--label={text}\x1b[2J")
        assert (said.status, marks(said.err)) == (1, []), text
        assert "not a label" in said.err

    assert query(attacked.agent.database, "SELECT device FROM devices") == before


def test_a_label_with_markup_or_a_shells_signs_is_only_text(attacked: Attacked) -> None:
    label = "<b>$(id)`id`%s{0}"

    admitted = attacked.prints(
        "devices", "admit", "tv-2", "--profile", "television", "--label", label, "--set", "topic=tv-2"
    )

    assert admitted.startswith(f"tv-2  {label}  (television, ")
    assert attacked.agent.device("tv-2").label == label


def test_whatever_a_reading_says_is_shown_without_harm_and_told_as_it_was(attacked: Attacked) -> None:
    for text in TEXTS.values():
        attacked.device.says("tv-1/state", json.dumps({"input": text}).encode())
        shown = text[:100]

        def shows(shown: str = shown) -> bool:
            reading = attacked.agent.device("tv-1").readings.get("input")
            return (
                reading is not None and isinstance(reading.value, str) and reading.value[:100] == shown[:100]
            )

        if shown.isprintable() and len(text) < 99:
            wait_until(shows, f"the reading {shown!a}")
        attacked.prints("devices", "show", "tv-1")
        DeviceReport.model_validate_json(attacked.prints("--json", "devices", "show", "tv-1"))

    events = query(attacked.agent.database, "SELECT data FROM outbox")
    assert all(isinstance(json.loads(bytes(data)), dict) for [data] in events if isinstance(data, bytes))
    assert query(attacked.agent.database, "SELECT count(*) FROM inbox") == [(0,)]


def test_whatever_a_device_says_when_it_refuses_is_shown_without_harm(attacked: Attacked) -> None:
    attacked.device.listens("tv-1/set/#")
    with ThreadPoolExecutor() as pool:
        for number, text in enumerate(TEXTS.values(), start=1):
            wanted = f"on={'yes' if number % 2 else 'no'}"
            sending = pool.submit(attacked.types, "send", "tv-1", "power", wanted)
            attacked.device.hears(number)
            attacked.device.says("tv-1/said", json.dumps({"error": text}).encode())
            said = sending.result(60)
            assert (said.status, marks(said.out)) == (1, []), said
            assert len(said.out.splitlines()) == 1

    listed = CommandsReport.model_validate_json(attacked.prints("--json", "commands", "list"))
    assert len(listed.commands) == len(TEXTS)
    attacked.prints("commands", "list")
    for command in listed.commands[:4]:
        attacked.prints("commands", "show", command.command)


@pytest.mark.requirement("M3")
def test_a_retained_command_on_a_topic_that_means_harm_is_told_without_it(attacked: Attacked) -> None:
    # A control character in a topic costs the device its connection: mosquitto lets none pass.
    topics = [
        f"tv-1/set/{text}" for text in ("\u202egnp", "a\u200bb", "<script>", "$(id)", "%s{0}", "é" * 200)
    ]
    for topic in topics:
        attacked.device.says(topic, b'{"value": true}', retain=True)
    attacked.agent.stop()
    attacked.agent.start()

    told = "SELECT data FROM outbox WHERE type = 'edgeagent.alert'"
    wait_until(lambda: len(query(attacked.agent.database, told)) == len(topics), "the alerts")

    assert all(
        bytes(data).isascii() for [data] in query(attacked.agent.database, told) if isinstance(data, bytes)
    )
    attacked.prints("health")
    attacked.prints("devices", "show", "tv-1")


async def test_whatever_a_queue_answers_is_shown_and_logged_without_harm(tmp_path: Path) -> None:
    texts = cycle(TEXTS.values())

    async def script(asked: Asked, writer: asyncio.StreamWriter) -> None:
        """One of several wrong answers, with a harmful text in every place for people."""
        text = next(texts)
        line = text.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")[:200]
        problem = json.dumps({"reason": text, "detail": text, "batch": text}).encode()
        refused = {"number": 1, "reason": text}
        answer = {
            "batch": text,
            "hub": text,
            "epoch": text,
            "stream": text,
            "taken": [],
            "refused": [refused],
        }
        writer.write(
            response("200 OK", json.dumps(answer).encode())
            if len(portal.asked) % 2
            else response(f"400 {line}", problem, headers={"Retry-After": line})
        )
        assert asked.path

    broker = Mosquitto(tmp_path / "broker")
    async with Portal(script) as portal:
        await asyncio.to_thread(broker.__enter__)
        folder = tmp_path / "hub"
        text = sections(folder, broker, Keys())
        write_private(folder / "token", "a-token-of-the-queue")
        text += f'[cloud]\nurl = "{portal.url}"\ntoken_file = "token"\n[uplink]\nlongest_backoff = "1s"\n'
        agent = AgentProcess(folder, text)
        try:
            await asyncio.to_thread(agent.start)
            await asyncio.to_thread(wait_until, lambda: len(portal.asked) > 8, "the agent to have asked")
            said = [
                await asyncio.to_thread(agent.run, *words)
                for words in (["status"], ["health"], ["outbox", "stats"])
            ]
        finally:
            await asyncio.to_thread(agent.close)
            await asyncio.to_thread(broker.__exit__, None, None, None)

    assert [marks(each.stdout + each.stderr) for each in said] == [[], [], []]
    assert "fails" in agent.log
    log_lines(agent.log)
    assert query(agent.database, "SELECT count(*) FROM outbox WHERE stream = 'record'") != [(0,)]
    assert query(agent.database, "SELECT count(*) FROM outbox_refused") == [(0,)]


async def test_whatever_a_queue_says_of_a_command_is_shown_to_its_issuer_without_harm(tmp_path: Path) -> None:
    texts = iter(TEXTS.values())

    async def script(asked: Asked, writer: asyncio.StreamWriter) -> None:
        text = next(texts)
        told = {"outcome": text, "level": text, "reason": "stale", "detail": text, "after": {"version": text}}
        event = {
            "specversion": "1.0", "id": f"venue-7/{'0' * 20}/record/1", "source": "urn:edgeagent:hub:venue-7",
            "type": "edgeagent.command.receipt", "subject": "tv-1", "time": "2026-01-01T00:00:00Z",
            "datacontenttype": "application/json", "timequality": "unknown", "boottime": 1, "incarnation": 1,
            "data": told,
        }  # fmt: skip
        status = {
            "id": "c-1", "payload_sha256": "0" * 64, "devices": ["tv-1"], "action": "power", "state": "final",
            "accepted_at": "2026-01-01T00:00:00Z", "lent": 1, "results": [event],
        }  # fmt: skip
        problem = json.dumps({"reason": text, "detail": text}).encode()
        asks_again = len(portal.asked) % 3 == 0
        writer.write(
            response("400 Bad", problem) if asks_again else response("200 OK", json.dumps(status).encode())
        )
        assert asked.path

    write_private(tmp_path / "token", "a-token-of-the-queue")
    async with Portal(script) as portal:
        login = ("--queue", portal.url, "--token-file", str(tmp_path / "token"))
        said = [
            await asyncio.to_thread(typed, "issuer", "watch", "venue-7", "c-1", "--within", "0s", *login)
            for _ in TEXTS
        ]

    assert [marks(each.out + each.err) for each in said] == [[]] * len(TEXTS)
    assert {each.status for each in said} == {1}
    assert sum("(the device is now at version " in each.out for each in said) > len(TEXTS) / 2
    # One line; after a no of the queue's, another of ours that says what to type next.
    assert {(len(each.out.splitlines()), each.err.count("\n")) for each in said} == {(1, 0), (0, 2)}


@pytest.mark.requirement("T2")
@pytest.mark.parametrize("where", ["keys", "devices"])
def test_a_policy_with_names_that_mean_harm_is_refused_whole(tmp_path: Path, where: str) -> None:
    keys, folder = Keys(), tmp_path / "hub"
    with Mosquitto(tmp_path / "broker") as broker:
        text = sections(folder, broker, keys)
        policy = json.loads(unproven_payload((folder / "policy.json").read_bytes()))
        for harm in TEXTS.values():
            if where == "keys":
                policy["keys"][harm] = "ab" * 32
            else:
                policy["roles"]["operators"]["devices"] = [harm]
        (folder / "policy.json").write_bytes(sign(json.dumps(policy).encode(), POLICY_TYPE, [keys.root]))
        with closing(AgentProcess(folder, text)) as agent:
            agent.start()
            said = [agent.run(*words) for words in (["status"], ["health"], ["--json", "status"])]

            assert agent.status().policy.version is None
            assert agent.status().policy.problem
            assert [marks(each.stdout + each.stderr) for each in said] == [[], [], []]
            log_lines(agent.log)
            assert query(agent.database, "SELECT count(*) FROM policy") == [(0,)]


@pytest.mark.requirement("H4")
@pytest.mark.threat("T31", "T32")
def test_no_hub_bears_such_a_name(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    for text in IDS.values():
        config.write_text(f"[hub]\nid = {json.dumps(text)}\n")
        said = typed("--config", str(config), "config", "check")
        assert (said.status, said.out, marks(said.err)) == (78, "", []), text
        assert "config.toml:2: hub.id: not a hub id: " in said.err


# What is typed.

LINES: Final = (
    ("{}",),
    ("devices", "{}"),
    ("devices", "show", "{}"),
    ("devices", "admit", "{}"),
    ("devices", "admit", "tv-2", "--{}"),
    ("devices", "admit", "tv-2", "--profile={}"),
    ("devices", "admit", "tv-2", "--profile=television", "--label=x", "--set={}"),
    ("devices", "admit", "tv-2", "--profile=television", "--label=x", "--set=topic=x", "--set=a={}"),
    ("devices", "forget", "{}"),
    ("send", "{}", "power", "on=yes"),
    ("send", "tv-1", "{}"),
    ("send", "tv-1", "power", "{}"),
    ("send", "tv-1", "power", "on={}"),
    ("send", "tv-1", "input", "name={}"),
    ("send", "tv-1", "power", "on=yes", "--wait=0s", "--operation={}"),
    ("send", "tv-1", "power", "on=yes", "--wait={}"),
    ("send", "tv-1", "power", "on=yes", "--if-version={}"),
    ("commands", "show", "{}"),
    ("issuer", "watch", "{}", "x", "--queue=http://127.0.0.1:1", "--token-file=/dev/null"),
    ("issuer", "command", "sign", "{}", "power", "--key={}", "--hub={}"),
    ("issuer", "keys", "show", "{}"),
    ("issuer", "token", "new", "{}", "issuer", "--tokens=/dev/null/x"),
)


def test_no_word_that_is_typed_does_harm_to_the_terminal_or_the_hub(attacked: Attacked) -> None:
    before = query(attacked.agent.database, "SELECT device FROM devices")
    worst = ("a new line", "a terminal's command", "reads backwards", "an option")
    texts = [*(TEXTS[each] for each in worst), "half \udc80 a character"]
    for line in LINES:
        for text in texts:
            words = [word.format(text) if word != "{}" else text for word in line]
            said = typed("--config", str(attacked.agent.config), *words)
            assert said.status != 0 or words[-1] == "--json", words
            assert marks(said.out + said.err) == [], words
            assert "Traceback" not in said.err

    assert query(attacked.agent.database, "SELECT device FROM devices") == before
    assert query(attacked.agent.database, "SELECT count(*) FROM inbox WHERE sent") == [(0,)]
    log_lines(attacked.agent.log)


def test_a_terminal_that_lacks_the_letters_gets_escapes(attacked: Attacked) -> None:
    attacked.agent.run(
        "devices", "admit", "tv-2", "--profile", "television", "--label", "Télé 電", "--set", "topic=tv-2"
    )

    narrow = subprocess.run(
        [sys.executable, "-m", "edgeagent", "--config", str(attacked.agent.config), "devices", "list"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )

    assert narrow.returncode == 0, narrow.stderr
    assert b"T\\xe9l\\xe9 \\u96fb" in narrow.stdout
    assert narrow.stdout.isascii()
