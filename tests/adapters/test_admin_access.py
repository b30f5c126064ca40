"""Two Unix groups at the operator's door: who may look, who may have things done, by the kernel's word."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from edgeagent.adapters.admin.access import Access, Peer
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.route import Role
from edgeagent.adapters.admin.socket import AdminSocket
from tests.flows.operating import OperatorDesk, operated_hub

pytestmark = pytest.mark.requirement("V6", "W3")

VIEWERS, OPERATORS, STRANGERS = 64_001, 64_002, 64_003
SOMEBODY: Final = 64_100
BOTH: Final = Access(view=VIEWERS, operate=OPERATORS)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

# Another process, as another user: connects, asks, prints status and body. It needs nothing of ours.
_ASK: Final = """
import os, socket, sys
path, groups, method, target = sys.argv[1:5]
os.setgroups([int(group) for group in groups.split(",") if group])
os.setgid(64100); os.setuid(64100)
channel = socket.socket(socket.AF_UNIX)
try:
    channel.connect(path)
except PermissionError:
    print("kept out"); sys.exit()
body = b"{}" if method == "POST" else b""
channel.sendall(f"{method} {target} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n"
                f"Content-Length: {len(body)}\\r\\n\\r\\n".encode() + body)
answer = b""
while chunk := channel.recv(65536):
    answer += chunk
head, _, rest = answer.partition(b"\\r\\n\\r\\n")
print(head.split()[1].decode()); print(rest.decode())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can reach, with one that is the agent's; paths of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as name:
        Path(name).chmod(0o755)
        inner = Path(name) / "run"
        inner.mkdir(mode=0o750)
        yield inner


def mode_of(path: Path) -> int:
    """What chmod(1) would show."""
    return path.stat().st_mode


def lets_others_look(folder: Path) -> None:
    """As systemd makes a runtime directory."""
    folder.chmod(0o755)


def new_folder(parent: Path) -> Path:
    """A new folder for a hub's database."""
    return Path(tempfile.mkdtemp(dir=parent))


def lets_everybody_in(folder: Path, path: Path) -> None:
    """Have no file keep anybody out."""
    folder.chmod(0o755)
    path.chmod(0o666)


@dataclass(frozen=True, slots=True)
class Said:
    """What another user's request came to.

    Attributes:
        status: of HTTP, or ``kept out`` by the file.
        body: of the answer.
    """

    status: str
    body: str


@dataclass(frozen=True, slots=True)
class Door:
    """An open door, and the hub behind it."""

    path: Path
    desk: OperatorDesk

    async def asked(self, *groups: int, method: str = "GET", target: str = "/v1/devices") -> Said:
        """Ask as somebody who belongs to these groups."""
        words = [sys.executable, "-c", _ASK, str(self.path), ",".join(map(str, groups)), method, target]
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, check=True, timeout=60, cwd="/"
        )
        status, _, body = done.stdout.partition("\n")
        return Said(status, body)


@asynccontextmanager
async def open_door(tmp_path: Path, folder: Path, access: Access) -> AsyncIterator[Door]:
    """A hub with a device, whose door knows these groups."""
    path = folder / "admin.sock"
    async with operated_hub(tmp_path, "dev-1") as desk:
        admin = AdminSocket(path, hub_routes(desk.operator), access, desk.hub.around.metrics)
        await admin.open()
        try:
            yield Door(path, desk)
        finally:
            await admin.close()


@as_root
@pytest.mark.parametrize(
    ("groups", "looking", "acting"),
    [
        pytest.param((VIEWERS,), "200", "403", id="the group that may look"),
        pytest.param((OPERATORS,), "200", "200", id="the group that may have things done"),
        pytest.param((VIEWERS, OPERATORS), "200", "200", id="both"),
        pytest.param((STRANGERS, VIEWERS), "200", "403", id="among other groups"),
        pytest.param((STRANGERS,), "kept out", "kept out", id="another group"),
        pytest.param((), "kept out", "kept out", id="no group"),
    ],
)
async def test_each_group_may_what_it_is_for(
    tmp_path: Path, folder: Path, groups: tuple[int, ...], looking: str, acting: str
) -> None:
    async with open_door(tmp_path, folder, BOTH) as door:
        looked = await door.asked(*groups)
        acted = await door.asked(*groups, method="DELETE", target="/v1/devices/dev-1")

        assert (looked.status, acted.status) == (looking, acting)
        left = [device.id for device in door.desk.hub.devices.all()]
        assert left == ([] if acting == "200" else ["dev-1"])
        if looked.status != "200":
            assert looked.body == ""
        if acted.status == "403":
            refusal = json.loads(acted.body)
            assert refusal["kind"] == "forbidden"
            assert f"usermod -aG {OPERATORS} USER" in refusal["advice"]


@as_root
async def test_who_may_only_look_is_told_so_and_counted(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_door(tmp_path, folder, BOTH) as door:
        said = await door.asked(VIEWERS, method="POST", target="/v1/commands")

        assert said.status == "403"
        assert "operate_group" in json.loads(said.body)["advice"]
        assert "admin socket refused" in caplog.messages
        assert door.desk.hub.counted("edgeagent_admin_refused_total", {"role": "operate"}) == 1
        assert door.desk.hub.rows("SELECT 1 FROM inbox") == []


@as_root
async def test_where_a_file_lets_a_stranger_in_the_kernels_word_keeps_him_out(
    tmp_path: Path, folder: Path
) -> None:
    async with open_door(tmp_path, folder, BOTH) as door:
        lets_everybody_in(folder, door.path)

        for target in ("/v1/devices", "/nothing"):
            said = await door.asked(STRANGERS, target=target)

            assert said.status == "403"
            assert "dev-1" not in said.body


@as_root
async def test_who_did_it_is_on_record_by_number(tmp_path: Path, folder: Path) -> None:
    async with open_door(tmp_path, folder, BOTH) as door:
        await door.asked(OPERATORS, method="DELETE", target="/v1/devices/dev-1")

        [(actor,)] = door.desk.hub.rows("SELECT actor FROM audit WHERE kind = 'device_forgotten'")
        assert str(actor).split()[0] == f"uid:{SOMEBODY}"


@as_root
async def test_a_start_without_groups_takes_back_what_an_earlier_one_has_let_in(
    tmp_path: Path, folder: Path
) -> None:
    async with open_door(new_folder(tmp_path), folder, BOTH):
        pass

    async with open_door(new_folder(tmp_path), folder, Access()) as door:
        assert (await door.asked(OPERATORS)).status == "kept out"
        assert stat.S_IMODE(door.path.stat().st_mode) == 0o600
        assert os.listxattr(folder) == []
        assert stat.S_IMODE(mode_of(folder)) == 0o750


@as_root
async def test_a_folder_that_others_may_look_into_stays_so(tmp_path: Path, folder: Path) -> None:
    """The last health report lies there, for when the agent is down."""
    lets_others_look(folder)

    for _ in range(2):
        async with open_door(new_folder(tmp_path), folder, BOTH) as door:
            assert stat.S_IMODE(mode_of(folder)) == 0o755
            assert (await door.asked(STRANGERS)).status == "kept out"
    async with open_door(new_folder(tmp_path), folder, Access()):
        assert stat.S_IMODE(mode_of(folder)) == 0o755


@pytest.mark.parametrize("role", Role)
def test_without_groups_only_root_and_the_agents_user_may(role: Role) -> None:
    somebody = Peer(SOMEBODY, frozenset({VIEWERS, OPERATORS, 0}))

    assert not Access().allows(somebody, role)
    assert not BOTH.allows(Peer(-1), role)
    assert Access().allows(Peer(0), role)
    assert Access().allows(Peer(os.geteuid()), role)


def test_a_group_may_not_more_than_the_other_is_for() -> None:
    viewer, operator = Peer(SOMEBODY, frozenset({VIEWERS})), Peer(SOMEBODY, frozenset({OPERATORS}))

    assert BOTH.allows(viewer, Role.VIEW)
    assert not BOTH.allows(viewer, Role.OPERATE)
    assert BOTH.allows(operator, Role.OPERATE)
    assert not Access(view=VIEWERS).allows(operator, Role.VIEW)
