"""The configuration that a set-up writes, and what is wrong with one that is there already.

A file that a person has written is never written over: what it lacks is told, line by line, or, where that is
asked for, it is kept under another name and a new one written.
"""

import difflib
import json
from pathlib import Path
from typing import Final

from edgeagent import config as configurations
from edgeagent.config import Config
from edgeagent.contracts.claim import ClaimFacts
from edgeagent.errors import ConfigurationError
from edgeagent.setup.places import RUN_DIR, STATE_DIR, Places
from edgeagent.values import dataclass

_HEAD: Final = """\
# Written by `edgeagent setup`, which leaves it alone from now on: what stands here is yours to change.
# `edgeagent config keys` lists every key, `edgeagent config check` finds every mistake.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the claim code does not say.

    Attributes:
        broker: the lines of ``[broker]``; none for a guest at 127.0.0.1:1883.
        view_group: who may look; None for nobody but root.
        operate_group: who may have things done.
        worker: the user of the isolated worker; None where the agent does all by itself.
        is_fetched_outside: whether a unit of its own fetches.
        proxy: to go through.
    """

    broker: str = ""
    view_group: str | None = None
    operate_group: str | None = None
    worker: str | None = None
    is_fetched_outside: bool = False
    proxy: str | None = None


def configuration_text(facts: ClaimFacts, places: Places, choices: Choices) -> str:
    """Write the configuration of a hub."""
    hub = [("id", facts.hub, ""), ("zone", facts.zone, "")]
    if places.state_dir != STATE_DIR:
        hub.append(("state_dir", str(places.state_dir), ""))
    if places.run_dir != RUN_DIR:
        hub.append(("run_dir", str(places.run_dir), ""))
    if choices.view_group is not None:
        hub.append(("view_group", choices.view_group, "its members may look"))
    if choices.operate_group is not None:
        hub.append(("operate_group", choices.operate_group, "its members may have things done"))
    cloud = [("url", facts.cloud, "the hub shows its certificate there: no token is needed")]
    if choices.proxy is not None:
        cloud.append(("proxy", choices.proxy, ""))
    policy = [
        ("source", facts.policy, ""),
        ("root", places.root.name, "all policies go back to it"),
    ]
    if is_of_the_cloud(facts):
        policy.append(("ca_file", str(places.slots.authority), ""))
    parts = [
        _HEAD,
        _section("hub", hub),
        choices.broker,
        _section("cloud", cloud),
        _section("policy", policy),
    ]
    if choices.worker is not None:
        parts.append(_section("worker", [("high", "outside", ""), ("user", choices.worker, "")]))
    if choices.is_fetched_outside:
        parts.append(_section("fetch", [("by", "outside", "")]))
    return "\n".join(part.strip("\n") + "\n" for part in parts if part)


def is_of_the_cloud(facts: ClaimFacts) -> bool:
    """Whether the policy is published at the queue itself, whose authority then counts there too."""
    return facts.policy.startswith(f"{facts.cloud}/")


def kept_configuration(path: Path) -> Config | None:
    """The configuration that is there, and says what nobody has typed; None for none that can be read."""
    try:
        return configurations.load(path)
    except ConfigurationError:
        # What is wrong with one that is there is told by whoever looks what it lacks.
        return None


def missing_lines(facts: ClaimFacts, places: Places, proxy: str | None) -> list[str]:
    """What a configuration that is there lacks, or has otherwise, for the hub of a claim.

    Args:
        facts: of the claim.
        places: where the set-up writes; the agent is to find it there.
        proxy: what the set-up goes through; the agent is to do so too.

    Raises:
        ConfigurationError: it is wrong in itself.
    """
    config = configurations.load(places.config)
    wanted = {
        "[hub] id": facts.hub,
        "[hub] zone": facts.zone,
        "[hub] state_dir": str(places.state_dir),
        "[hub] run_dir": str(places.run_dir),
        "[cloud] url": facts.cloud,
        "[policy] source": facts.policy,
    }
    if proxy is not None:
        wanted["[cloud] proxy"] = proxy.rstrip("/")
    found = _found(config)
    wrong = [f"{key} = {json.dumps(value)}" for key, value in wanted.items() if found.get(key) != value]
    if config.policy is None or config.policy.root is None:
        wrong.append('[policy] root = "root.json"')
    return wrong


def difference(before: str, after: str, path: Path) -> str:
    """What would change in a file, as ``diff -u`` shows it."""
    names = (str(path) if before else "/dev/null", str(path))
    return "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))


def _found(config: Config) -> dict[str, str]:
    found = {
        "[hub] id": str(config.hub.id),
        "[hub] zone": str(config.hub.zone),
        "[hub] state_dir": str(config.hub.state_dir.absolute()),
        "[hub] run_dir": str(config.hub.run_dir.absolute()),
    }
    if config.cloud is not None:
        found["[cloud] url"] = config.cloud.url
        found["[cloud] proxy"] = config.cloud.proxy or ""
    if config.policy is not None and config.policy.source is not None:
        found["[policy] source"] = config.policy.source
    return found


def _section(name: str, keys: list[tuple[str, str, str]]) -> str:
    # A string of JSON, with nothing but ASCII in it, is one of TOML.
    lines = [
        f"{key} = {json.dumps(value)}{f'    # {meaning}' if meaning else ''}" for key, value, meaning in keys
    ]
    return "\n".join([f"[{name}]", *lines])
