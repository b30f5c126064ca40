"""The extra for traces: asked for only where it is configured, and named where it is missing."""

import sys
from pathlib import Path

import pytest

from edgeagent.agent.tracing import trace_flows
from edgeagent.config import load
from edgeagent.errors import ConfigurationError
from tests.flows.commanding import new_hub
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("O2")

HUB = '[hub]\nid = "venue-7"\n'


def written(folder: Path, text: str) -> Path:
    """A configuration."""
    path = folder / "config.toml"
    write_private(path, HUB + text)
    return path


@pytest.mark.parametrize("url", ["http://traces.example.org", "ftp://127.0.0.1", "traces", ""])
def test_traces_go_over_nothing_that_others_can_read(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"trace\.otlp_endpoint"):
        load(written(tmp_path, f'[trace]\notlp_endpoint = "{url}"\n'))


async def test_without_a_collector_nothing_runs_and_without_the_extra_its_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "edgeagent.adapters.otlp", None)
    none = load(written(tmp_path, ""))
    wanted = load(written(tmp_path, '[trace]\notlp_endpoint = "http://127.0.0.1:4318"\n'))

    async with new_hub(tmp_path) as hub:
        assert trace_flows(none, hub.store, hub.now.around) == {}
        with pytest.raises(ConfigurationError, match="extra otel"):
            trace_flows(wanted, hub.store, hub.now.around)
