"""What a hub does not use takes none of its memory (SPEC H7).

How much memory there is, ``python -m bench.footprint`` tells; here is what must not come to be in it.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.agents import ROOT, AgentProcess
from tests.support.brokers import free_port
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("H7")

FOR_OTHERS: Final = frozenset(
    {
        # Hubs with a published policy, certificates, a worker, files for devices or traces have these.
        "tuf",
        "securesystemslib",
        "urllib3",
        "cryptography.x509",
        "opentelemetry",
        "edgeagent.adapters.otlp",
        "edgeagent.adapters.work_socket",
        # Whoever asks for it, or makes a mistake, has these.
        "edgeagent.config_mistakes",
        "edgeagent.flows.drills.rig",
        # Other programs of ours have these.
        "edgeagent.fetcher",
        "edgeagent.issuer",
        "edgeagent.setup",
        "edgeagent.support",
        "edgeagent.worker",
        # Nobody.
        "importlib.resources.readers",
        "multiprocessing",
        "pydantic.v1",
        "unittest",
        "xml",
    }
)
"""Modules and rooms that a hub with a broker and a queue does without."""
_MARK: Final = "import time:"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that tells what it loads (PYTHONPROFILEIMPORTTIME); its broker and its queue are away."""
    write_private(tmp_path / "queue.token", "any-of-sixteen-or-more")
    process = AgentProcess(
        tmp_path,
        f'[broker]\nport = {free_port()}\n[cloud]\nurl = "http://127.0.0.1:{free_port()}"\n'
        'token_file = "queue.token"\n',
    )
    process.environment = {"PYTHONPROFILEIMPORTTIME": "1"}
    yield process
    process.close()


def test_an_agent_loads_nothing_that_its_hub_has_no_use_for(agent: AgentProcess) -> None:
    agent.start()
    agent.status()
    agent.devices()
    assert agent.stop() == 0

    loaded = {line.rpartition("|")[2].strip() for line in agent.log.splitlines() if line.startswith(_MARK)}

    assert {"edgeagent.flows.ingest", "edgeagent.flows.drills.drilling"} <= loaded, "it tells what it loads"
    assert {name for name in loaded if _rooms(name) & FOR_OTHERS} == set()


def test_what_is_needed_to_read_the_configuration_and_profiles_goes_with_having_read_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[hub]\nid = "hub-1"\n', "utf-8")
    lines = (
        "from pathlib import Path",
        "from edgeagent import config, sections, settings",
        "from edgeagent.contracts.profile import DeviceProfile",
        f"path = Path({str(path)!r})",
        "profiles = settings.profiles(config.load(path), path)",
        "kinds = [config.Config, sections.BrokerSection, sections.WebSection, DeviceProfile]",
        "print(len(profiles) > 3, [kind.__name__ for kind in kinds if kind.__pydantic_complete__])",
    )

    told = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert told.stdout == "True []\n"


def _rooms(name: str) -> set[str]:
    """A module and all that it is in."""
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
