"""What the agent reads at its start, in the same order; for the template of agents."""

from importlib import import_module

from edgeagent.agent.loading import load_http

load_http()
for module in ("edgeagent.cli.run", "edgeagent.agent.daemon"):
    import_module(module)
