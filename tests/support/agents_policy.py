"""An agent whose policy is published in a repository of metadata, in the place of a file."""

from tests.support.agents import AgentProcess
from tests.support.brokers import wait_until
from tests.support.tuf_repository import Repository


def published(agent: AgentProcess, repository: Repository, source: str) -> None:
    """Have an agent look every second for what a repository publishes; it does not run."""
    root = agent.folder / "root.json"
    root.write_bytes(repository.first_root)
    sections = agent.config.read_text("utf-8").splitlines()
    kept = [line for line in sections if not line.startswith(("[policy]", "file = ", "signer = "))]
    kept += ["[policy]", f'source = "{source}"', f'root = "{root.name}"', 'refresh = "1s"', ""]
    agent.config.write_text("\n".join(kept), "utf-8")
    agent.has_fetching_unit()


def wait_for_version(agent: AgentProcess, version: int) -> None:
    """Wait until a version is in force."""
    wait_until(lambda: agent.status().policy.version == version, f"version {version} of the policy")
