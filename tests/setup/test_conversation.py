"""``edgeagent setup`` as a conversation: at a terminal of its own, with somebody who types (SPEC H5)."""

import asyncio
import getpass
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.config import load
from edgeagent.contracts.claim import claim_text
from tests.support.agents import ROOT
from tests.support.enrolled import Office, enrolling

pytestmark = pytest.mark.requirement("H5")

PATIENCE: Final = 60.0


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    from tests.issuer.publishing import issuing

    issuing(tmp_path)
    with enrolling(tmp_path, repository=tmp_path / "venue" / "repository") as open_office:
        yield open_office


class Typist:
    """Somebody at a terminal who types an answer to each question."""

    def __init__(self, *words: str) -> None:
        self._screen, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edgeagent", *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT
        )
        os.close(theirs)
        self.seen = ""

    def answers(self, question: str, *lines: str) -> None:
        """Wait for a question, and type."""
        self.waits_for(question)
        os.write(self._screen, "".join(f"{line}\n" for line in lines).encode())

    def waits_for(self, words: str) -> None:
        """Wait until something stands on the screen, from here on."""
        while words not in self.seen:
            ready, _, _ = select.select([self._screen], [], [], PATIENCE)
            assert ready, f"in vain for {words!r}: {self.seen}"
            try:
                self.seen += os.read(self._screen, 4096).decode()
            except OSError:
                break
        assert words in self.seen, self.seen
        self.seen = self.seen.partition(words)[2]

    def leaves(self) -> int:
        """How it ended."""
        status = self._process.wait(PATIENCE)
        os.close(self._screen)
        return status


def begins(folder: Path) -> Typist:
    return Typist(
        *("--config", str(folder / "etc" / "config.toml"), "setup", "--no-start"),
        *("--state-dir", str(folder / "state"), "--run-dir", str(folder / "run")),
        *("--user", getpass.getuser()),
    )


@pytest.mark.slow
def test_somebody_pastes_the_code_in_lines_and_is_asked_what_no_code_says(
    office: Office, tmp_path: Path
) -> None:
    code = claim_text(asyncio.run(office.claims()))
    typist = begins(tmp_path / "hub")

    typist.answers("Claim code", code[:100], code[100:200], code[200:])
    typist.answers("guest or managed? [guest]", "both")
    typist.answers("there is no both among: guest, managed", "")
    typist.waits_for("hub       venue-7 (Europe/Berlin)")
    typist.answers("Make this machine that hub? [y/N]", "y")
    typist.waits_for("done      configuration")

    assert typist.leaves() in {0, 1}  # 1: there is no broker
    assert load(tmp_path / "hub" / "etc" / "config.toml").hub.id == "venue-7"


def test_whoever_says_no_has_changed_nothing(office: Office, tmp_path: Path) -> None:
    code = claim_text(asyncio.run(office.claims()))
    typist = begins(tmp_path / "hub")

    typist.answers("Claim code", code)
    typist.answers("guest or managed?", "")
    typist.answers("Make this machine that hub?", "")
    typist.waits_for("nothing was done")

    assert typist.leaves() == 1
    assert not (tmp_path / "hub").exists()
