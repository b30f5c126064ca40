"""The environment that ./run and ./test make: kept while it serves, and made anew when it does not."""

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.packages import ROOT

NEEDED: Final = """
. packaging/bootstrap.sh
need_environment
"""
STAMPED: Final = """
touch .venv/edgeagent-$(cat pyproject.toml packaging/bootstrap.sh | sha256sum | cut -c1-16)-
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with an environment that is complete, and of which that is on record."""
    (tmp_path / "packaging").mkdir()
    for name in ("pyproject.toml", "packaging/bootstrap.sh"):
        shutil.copy2(ROOT / name, tmp_path / name)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True, timeout=60
    )
    libraries(tmp_path).write_text("\n".join(site.getsitepackages()), "utf-8")
    subprocess.run(["bash", "-c", STAMPED], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def libraries(clone: Path) -> Path:
    """Where its environment finds its libraries."""
    [folder] = clone.glob(".venv/lib/python*/site-packages")
    return folder / "found.pth"


def needed(clone: Path) -> tuple[int, str]:
    """How it ends, and what is said, when somebody needs the environment on a machine without a network."""
    ended = subprocess.run(
        ["bash", "-c", NEEDED],
        cwd=clone,
        env=os.environ | {"PIP_NO_INDEX": "1", "EDGEAGENT_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    return ended.returncode, ended.stderr


@pytest.mark.requirement("H1")
def test_an_environment_that_is_complete_is_used_as_it_is(clone: Path) -> None:
    assert needed(clone) == (0, "")


@pytest.mark.slow
@pytest.mark.requirement("H1")
def test_an_environment_whose_libraries_are_gone_is_made_anew(clone: Path) -> None:
    """As when Debian's Python has become another one, which looks for them elsewhere."""
    libraries(clone).unlink()

    ended, said = needed(clone)

    assert "fetching Python packages into .venv (once)" in said
    assert (clone / ".venv" / "bin" / "pip").exists()
    # It is on record as complete only once they are there
    assert ended != 0
    assert list(clone.glob(".venv/edgeagent-*")) == []
