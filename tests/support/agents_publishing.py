"""Agents that take their policy from a repository, and artifacts that are signed for there.

repository = signing_for(tmp_path / "repository", plug_1=PLUG)
with closing(taking_from(repository, tmp_path / "hub")) as agent:
begins(agent)
"""

from pathlib import Path

from edgeagent.clock import BUILT_AT
from tests.flows.publishing import policy
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.tuf_repository import DAY, Repository


def signing_for(folder: Path, *, content: bytes, **artifacts: dict[str, object]) -> Repository:
    """A repository of a first policy, in which the group of plugs signs for artifacts of one content."""
    made = Repository(folder, now=BUILT_AT + DAY)
    made.publishes(policy(1))
    made.delegates("plugs")
    made.contents |= {name.replace("_", "-"): content for name in artifacts}
    made.lists("plugs", **artifacts)
    return made


def taking_from(repository: Repository, folder: Path, *, refresh: str = "1h") -> AgentProcess:
    """An agent with a repository as its policy's source; it does not run yet."""
    sections = (
        f'[broker]\nport = {free_port()}\n[policy]\nsource = "{repository.folder}"\nroot = "root.json"\n'
        f'refresh = "{refresh}"\n'
    )
    process = AgentProcess(folder, sections)
    (process.folder / "root.json").write_bytes(repository.first_root)
    return process


def begins(agent: AgentProcess) -> None:
    """Start it, and wait until it has the first policy."""
    agent.start()
    wait_until(lambda: agent.status().policy.version == 1, "the policy")
