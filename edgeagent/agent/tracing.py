"""What sends traces to a collector, where one is configured; nothing of it is even imported else."""

from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.errors import ConfigurationError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trace_export import TraceExport
from edgeagent.store.database import Database


def trace_flows(config: Config, store: Database, around: Surroundings) -> dict[str, Flow]:
    """Build it.

    Raises:
        ConfigurationError: the libraries for it are not installed.
    """
    if config.trace is None:
        return {}
    try:
        from edgeagent.adapters.otlp import OtlpSink
    except ImportError as why:
        raise ConfigurationError(
            f"[trace] otlp_endpoint needs the extra otel ({why}): pip install 'edgeagent[otel]'"
        ) from why
    sink = OtlpSink(config.trace.otlp_endpoint, config.hub.id)
    return {"traces": TraceExport(store, sink, around, has_cloud=config.cloud is not None).run}
