"""The lines of docs/issuing.md, typed as they stand: from nothing to a queue, a claim code, a signed file."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.claim import read_claim
from tests.support.brokers import free_port, wait_until
from tests.support.private import write_private

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "issuing.md").read_text("utf-8")
FIRST_HOUR, CLAIMS, FILES = (
    block.replace("\\\n", " ").splitlines()
    for block in re.findall(r"test_issuing_page.py runs these lines -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
)
ASKS: Final = re.compile(r"edgeagent issuer (init|ca init|artifact (role add|add|release|revoke)) ")
"""Words that ask for a passphrase, where somebody is there to be asked."""


class Issuer:
    """Whoever has the page before them.

    Attributes:
        folder: where they type.
        port: of their queue.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        program = folder / "bin" / "edgeagent"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgeagent "$@"\n')
        program.chmod(0o700)
        write_private(folder / "secret", "correct horse battery\n")
        self._environment = os.environ | {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def _here(self, line: str) -> str:
        """A line of the page, for a queue of this machine."""
        line = re.sub(r"\s+#.*", "", line).replace("--queue ...", "--queue https://queue.example:8443 ...")
        line = line.replace(" ...", " --token-file backend.token --ca-file ca/root.pem")
        line = line.replace("0.0.0.0:8443", f"127.0.0.1:{self.port}").replace(":8443", f":{self.port}")
        line = line.replace("queue.example", "127.0.0.1")
        return f"{line} --passphrase-file secret" if ASKS.match(line) else line

    def types(self, line: str) -> str:
        """What is printed."""
        done = subprocess.run(  # noqa: S602 - our own line, as a shell runs it
            self._here(line),
            shell=True,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def serves(self, line: str) -> "subprocess.Popen[bytes]":
        """Begin what runs until it is told to stop, and wait until it listens."""
        server = subprocess.Popen(  # noqa: S602 - our own line, as a shell runs it
            f"exec {self._here(line)}", shell=True, cwd=self.folder, env=self._environment
        )
        wait_until(self._listens, "the queue to listen")
        return server

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


@pytest.mark.slow
@pytest.mark.requirement("V6", "H5", "F1")
def test_its_lines_lead_from_nothing_to_a_claim_code_and_a_file_for_devices(issuer: Issuer) -> None:
    server: subprocess.Popen[bytes] | None = None
    told: dict[str, str] = {}
    (issuer.folder / "tasmota.bin.gz").write_bytes(b"firmware" * 100)
    try:
        for line in [*FIRST_HOUR, *CLAIMS, *FILES]:
            if " serve " in line:
                server = issuer.serves(line)
            else:
                told[line.split(" --")[0].split("  ")[0]] = issuer.types(line)
    finally:
        if server is not None:
            server.terminate()
            server.wait(60)

    code = told["edgeagent issuer claim new venue-7"]
    assert read_claim(code).facts.hub == "venue-7"
    assert "venue-7  waiting" in told["edgeagent issuer claim list"]
    assert "taken back: 1" in told["edgeagent issuer claim revoke venue-7"]
    assert "root " in told["edgeagent issuer ca show"]
    assert "plug-14.2.0" in told["edgeagent issuer artifact add tasmota.bin.gz"]
    assert "plug-14.2.0" not in told["edgeagent issuer artifact list"]
