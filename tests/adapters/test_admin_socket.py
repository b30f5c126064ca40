"""The operator's door: who may come in, what is answered, and what of all nonsense is refused."""

import asyncio
import json
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.contracts.door import Contract, decode
from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.devices import DeviceReport, DevicesReport
from edgeagent.contracts.reports.health import HealthReport
from edgeagent.contracts.reports.refusal import Refusal
from edgeagent.contracts.reports.status import OutboxReport, StatusReport
from edgeagent.errors import ConfigurationError
from tests.flows.operating import OperatorDesk, operated_hub
from tests.support.stores import full_disk

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered.

    Attributes:
        status: of HTTP.
        body: behind it.
    """

    status: int
    body: bytes

    @property
    def refusal(self) -> Refusal:
        """The body of an answer that is a no."""
        return decode(Refusal, self.body, limit=100_000)


@dataclass(frozen=True, slots=True)
class Door:
    """An open door, and the hub behind it."""

    path: Path
    desk: OperatorDesk
    session: aiohttp.ClientSession

    async def asks(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Ask for something."""
        async with self.session.request(method, f"http://localhost{path}", data=body) as response:
            assert response.content_type == "application/json" or response.status == 204
            return Answer(response.status, await response.read())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a Unix socket has at most 107 bytes (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as name:
        yield Path(name)


@asynccontextmanager
async def open_door(tmp_path: Path, folder: Path, *devices: str) -> AsyncIterator[Door]:
    """A hub whose operator's door is open."""
    path = folder / "admin.sock"
    async with operated_hub(tmp_path, *devices) as desk:
        admin = AdminSocket(path, hub_routes(desk.operator))
        await admin.open()
        try:
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session:
                yield Door(path, desk, session)
        finally:
            await admin.close()


def admission(device: str = "dev-1", **fields: object) -> bytes:
    """A request to admit a device."""
    return json.dumps(
        {"device": device, "profile": "thing", "parameters": {"topic": device}} | fields
    ).encode()


class TestWhatIsAnswered:
    """Each report as JSON, as its contract has it."""

    @pytest.mark.parametrize(
        ("path", "contract"),
        [
            ("/v1/health", HealthReport),
            ("/v1/status", StatusReport),
            ("/v1/devices", DevicesReport),
            ("/v1/devices/dev-1", DeviceReport),
            ("/v1/outbox", OutboxReport),
            ("/v1/commands", CommandsReport),
        ],
    )
    async def test_every_report_is_what_its_contract_says(
        self, tmp_path: Path, folder: Path, path: str, contract: type[Contract]
    ) -> None:
        async with open_door(tmp_path, folder, "dev-1") as door:
            answer = await door.asks("GET", path)

            assert answer.status == 200
            decode(contract, answer.body, limit=100_000)

    @pytest.mark.requirement("V6", "A1")
    async def test_a_device_is_admitted_and_who_did_it_is_on_record(
        self, tmp_path: Path, folder: Path
    ) -> None:
        """By what the kernel says, whatever the request claims."""
        async with open_door(tmp_path, folder) as door:
            answer = await door.asks("POST", "/v1/devices", admission())

            assert answer.status == 200
            [(who,)] = door.desk.hub.rows("SELECT admitted_by FROM devices")
            assert str(who).startswith(f"uid:{os.geteuid()}")

    async def test_a_device_is_let_go(self, tmp_path: Path, folder: Path) -> None:
        async with open_door(tmp_path, folder, "dev-1") as door:
            answer = await door.asks("DELETE", "/v1/devices/dev-1")

            assert (answer.status, answer.body) == (200, b'{"device":"dev-1"}')
            assert door.desk.hub.devices.all() == []


class TestWhatIsRefused:
    """With a reason as JSON, and nothing changed."""

    @pytest.mark.parametrize(
        ("method", "path", "body", "status", "word"),
        [
            pytest.param("GET", "/v1/teapot", None, 404, "/v1/teapot", id="an unknown path"),
            pytest.param("GET", "/", None, 404, "Not Found", id="no path"),
            pytest.param("PUT", "/v1/devices", b"{}", 405, "Not Allowed", id="an unknown method"),
            pytest.param("GET", "/v1/devices/dev-9", None, 404, "not admitted", id="a stranger"),
            pytest.param(
                "DELETE", "/v1/devices/dev-9", None, 404, "not admitted", id="letting a stranger go"
            ),
            pytest.param("GET", "/v1/devices/dev%209", None, 400, "not a device id", id="no device id"),
            pytest.param(
                "GET", "/v1/devices/..%2f..%2fetc", None, 400, "not a device id", id="a path in an id"
            ),
            pytest.param("GET", "/v1/commands/c-9", None, 404, "no command", id="an unknown command"),
            pytest.param("POST", "/v1/devices", b"", 400, "not JSON", id="nothing"),
            pytest.param("POST", "/v1/devices", b'{"device":', 400, "not JSON", id="half of it"),
            pytest.param("POST", "/v1/devices", b"\xff\xfe", 400, "UTF-8", id="no UTF-8"),
            pytest.param("POST", "/v1/devices", b"[" * 50_000, 400, "nested", id="too deep"),
            pytest.param("POST", "/v1/devices", b"[]", 400, "", id="a list"),
            pytest.param(
                "POST", "/v1/devices", admission(surprise=1), 400, "surprise", id="an unknown field"
            ),
            pytest.param(
                "POST", "/v1/devices", admission(label="a\x1bb"), 400, "label", id="a label that paints"
            ),
            pytest.param(
                "POST", "/v1/devices", admission()[:-1] + b',"device":"x"}', 400, "twice", id="one key twice"
            ),
            pytest.param(
                "POST", "/v1/devices", admission(profile="x"), 409, "no profile", id="no such family"
            ),
            pytest.param(
                "POST", "/v1/devices", admission(parameters={}), 400, "topic", id="a missing parameter"
            ),
            pytest.param("POST", "/v1/devices", admission(label="x" * 100_000), 413, "Large", id="too large"),
        ],
    )
    async def test_nonsense_is_refused_with_a_reason(
        self, tmp_path: Path, folder: Path, method: str, path: str, body: bytes | None, status: int, word: str
    ) -> None:
        async with open_door(tmp_path, folder) as door:
            before = door.desk.hub.rows("SELECT count(*) FROM audit")

            answer = await door.asks(method, path, body)

            assert answer.status == status
            assert word in answer.refusal.error
            assert door.desk.hub.rows("SELECT count(*) FROM audit") == before
            assert door.desk.hub.rows("SELECT 1 FROM devices") == []

    @pytest.mark.requirement("R2")
    async def test_a_full_disk_is_said_to_be_worth_another_try(self, tmp_path: Path, folder: Path) -> None:
        async with open_door(tmp_path, folder) as door:
            with full_disk(door.desk.hub.path):
                answer = await door.asks("POST", "/v1/devices", admission())

            assert answer.status == 503
            assert "health" in answer.refusal.advice
            assert door.desk.hub.devices.all() == []

    async def test_a_fault_of_ours_is_told_without_its_innards(
        self, tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with open_door(tmp_path, folder) as door:
            await door.desk.hub.store.close()

            answer = await door.asks("GET", "/v1/outbox")

            assert answer.status == 500
            assert answer.refusal.error == "the agent failed; see its log"
            assert "request failed" in caplog.messages

    async def test_half_a_request_does_no_harm(self, tmp_path: Path, folder: Path) -> None:
        async with open_door(tmp_path, folder) as door:
            with socket.socket(socket.AF_UNIX) as half:
                half.connect(str(door.path))
                half.sendall(b"POST /v1/devices HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")

            assert (await door.asks("GET", "/v1/outbox")).status == 200
            assert door.desk.hub.rows("SELECT 1 FROM devices") == []


@pytest.mark.requirement("W3", "V6")
class TestWhoMayComeIn:
    """root and the agent's own user, by the kernel's word."""

    async def test_the_socket_is_its_owners_alone(self, tmp_path: Path, folder: Path) -> None:
        async with open_door(tmp_path, folder) as door:
            assert stat.S_IMODE(door.path.stat().st_mode) == 0o600

    @as_root
    async def test_somebody_else_is_kept_out_by_the_file(self, tmp_path: Path, folder: Path) -> None:
        async with open_door(tmp_path, folder) as door:
            lets_everybody_in(folder)

            with pytest.raises(PermissionError):
                connected_as_nobody(door.path)

    @as_root
    async def test_and_refused_where_the_file_lets_him_in(
        self, tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with open_door(tmp_path, folder, "dev-1") as door:
            lets_everybody_in(folder, door.path)

            for request in ("GET /v1/health", "DELETE /v1/devices/dev-1", "GET /nothing"):
                answer = await answered(connected_as_nobody(door.path), request)

                assert answer.status == 403
                assert "sudo" in answer.refusal.advice
            assert [device.id for device in door.desk.hub.devices.all()] == ["dev-1"]
            assert "admin socket refused" in caplog.messages


class TestTheSocket:
    """Where it lies, and what lies there already."""

    async def test_one_that_a_dead_agent_left_behind_is_replaced(self, tmp_path: Path, folder: Path) -> None:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / "admin.sock"))

        async with open_door(tmp_path, folder) as door:
            assert (await door.asks("GET", "/v1/status")).status == 200

    async def test_whoever_waits_for_an_answer_does_not_hold_the_agents_stop_up(self, folder: Path) -> None:
        """Whatever has not ended after half a minute is killed by systemd, in the middle of all."""
        asked = asyncio.Event()

        async def waits(_asked: Asked) -> Contract:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody rings")

        admin = AdminSocket(folder / "admin.sock", [Route("GET", "/v1/wait", Role.VIEW, waits)])
        await admin.open()
        connector = aiohttp.UnixConnector(str(folder / "admin.sock"))
        async with aiohttp.ClientSession(connector=connector) as session:
            answer = asyncio.create_task(session.get("http://localhost/v1/wait").__aenter__())
            await asked.wait()
            async with asyncio.timeout(20):
                await admin.close()
            with pytest.raises(aiohttp.ClientConnectionError):
                await answer

    async def test_it_is_gone_when_the_door_is_closed(self, tmp_path: Path, folder: Path) -> None:
        async with open_door(tmp_path, folder) as door:
            path = door.path

        assert not path.exists()

    @pytest.mark.requirement("H4")
    @pytest.mark.parametrize("name", ["x" * 120, "missing"], ids=["too long", "no such folder"])
    async def test_where_there_can_be_none_the_operator_is_told(
        self, tmp_path: Path, folder: Path, name: str
    ) -> None:
        async with operated_hub(tmp_path) as desk:
            with pytest.raises(ConfigurationError, match="run_dir"):
                await AdminSocket(folder / name / "admin.sock", hub_routes(desk.operator)).open()


def lets_everybody_in(folder: Path, path: Path | None = None) -> None:
    """Have no file keep anybody out: neither the folder nor, if given, the socket."""
    folder.chmod(0o755)
    if path is not None:
        path.chmod(0o666)


def connected_as_nobody(path: Path) -> socket.socket:
    """A connection that another user has made: the kernel notes who calls connect(2)."""
    channel = socket.socket(socket.AF_UNIX)
    os.seteuid(NOBODY)
    try:
        channel.connect(str(path))
    except BaseException:
        channel.close()
        raise
    finally:
        os.seteuid(0)
    return channel


async def answered(channel: socket.socket, request: str) -> Answer:
    """What a request over a connection comes to."""
    channel.setblocking(False)  # noqa: FBT003 - the method's only argument
    reader, writer = await asyncio.open_unix_connection(sock=channel)
    writer.write(f"{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return Answer(int(head.split(b" ")[1]), body)
