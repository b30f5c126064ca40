"""The commands of a conformance runner, on the agent's own client, as programs of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import libfaketime
import pytest
from tuf.api.metadata import Metadata

from tests.support.tuf_repository import Repository
from tests.support.web_folder import WebFolder, web_folder

pytestmark = [pytest.mark.requirement("T2"), pytest.mark.slow]

POLICY = b'{"version":1}'
ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository", now=datetime.now(UTC))
    made.publishes(POLICY)
    return made


@pytest.fixture
def web(repository: Repository) -> Iterator[WebFolder]:
    with web_folder(repository.folder) as served:
        yield served


class Program:
    """The program, with its folders.

    Attributes:
        ahead: libfaketime's word on the time; empty for the system's.
    """

    def __init__(self, folder: Path, web: WebFolder) -> None:
        self.metadata = folder / "trusted"
        self.targets = folder / "downloaded"
        self.targets.mkdir()
        self.ahead = ""
        self._web = web

    def init(self, root: bytes) -> int:
        """Begin with a root."""
        file = self.targets.parent / "first.json"
        file.write_bytes(root)
        return self._run("init", str(file))

    def refresh(self) -> int:
        """Bring what is trusted up to date."""
        return self._run("--metadata-url", f"{self._web.address}/metadata", "refresh")

    def download(self, name: str) -> int:
        """Download a target."""
        return self._run(
            *("--metadata-url", f"{self._web.address}/metadata", "--target-name", name),
            *("--target-base-url", f"{self._web.address}/targets", "--target-dir", str(self.targets)),
            "download",
        )

    def version(self, role: str) -> int:
        """The version of a role that is trusted."""
        raw = (self.metadata / f"{role}.json").read_bytes()
        return Metadata.from_bytes(raw).signed.version

    def _run(self, *words: str) -> int:
        environment = dict(os.environ)
        if self.ahead:
            _, additions = libfaketime.get_reload_information()
            environment |= additions | {"FAKETIME": self.ahead}
        program = [sys.executable, "-m", "tests.support.tuf_client", "--metadata-dir", str(self.metadata)]
        return subprocess.run(
            [*program, *words], cwd=ROOT, env=environment, check=False, timeout=60
        ).returncode


@pytest.fixture
def program(tmp_path: Path, web: WebFolder, repository: Repository) -> Program:
    made = Program(tmp_path, web)
    assert made.init(repository.first_root) == 0
    return made


def test_it_refreshes_and_downloads_what_verifies(repository: Repository, program: Program) -> None:
    repository.rotates("timestamp")
    repository.publishes(POLICY)

    statuses = (program.refresh(), program.download("policy.json"), program.download("nothing"))

    assert statuses == (0, 0, 1)
    assert [program.version(role) for role in ("root", "timestamp", "snapshot", "targets")] == [2, 2, 2, 2]
    assert [path.read_bytes() for path in program.targets.iterdir()] == [POLICY]


def test_what_was_downloaded_is_not_downloaded_again(
    repository: Repository, program: Program, web: WebFolder
) -> None:
    program.download("policy.json")
    web.asked.clear()

    assert program.download("policy.json") == 0
    assert [path for path in web.asked if "/targets/" in path] == []
    assert repository.folder.exists()


def test_a_rollback_is_refused_and_what_is_trusted_stays(repository: Repository, program: Program) -> None:
    old = repository.file("timestamp").read_bytes()
    repository.publishes(b'{"version":2}')
    program.refresh()
    repository.file("timestamp").write_bytes(old)

    assert program.refresh() == 1
    assert program.version("timestamp") == 2


def test_the_time_may_be_another(program: Program) -> None:
    program.ahead = "+8d"

    assert program.refresh() == 1
    program.ahead = ""
    assert program.refresh() == 0
