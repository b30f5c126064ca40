"""``edgeagent drill KIND``: the engine tried on a virtual appliance, in the running agent."""

import argparse
from typing import Final

from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.drills import DrillKind, DrillReport, DrillRequest

# The agent itself ends one after a minute; in seconds.
_PATIENCE: Final = 90.0


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    drill = nouns.add_parser(
        "drill",
        help="try the engine on a virtual appliance; exit 0 passed, 1 failed",
        description="Try the engine of the running agent on a virtual appliance: no real one is touched. "
        "It takes seconds, and is put on record with your name.",
    )
    kinds = drill.add_subparsers(required=True, metavar="KIND", dest="kind")
    for kind, help_ in (
        (DrillKind.DEAD_LETTER, "a command that fails is kept, and runs again once its appliance is well"),
        (DrillKind.LOCK, "one works an appliance at a time, and who has lost its lease is refused"),
        (DrillKind.CRASH, "work that is cut off goes on: nothing is lost, nothing done twice"),
        (DrillKind.DUPLICATE, "what comes again has no further effect"),
    ):
        kinds.add_parser(str(kind), help=help_)
    drill.set_defaults(handler=_drill)


def _drill(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    request = DrillRequest(kind=DrillKind(arguments.kind))
    report = agent.post("/v1/drills", request, DrillReport, patience=_PATIENCE)
    if arguments.json:
        show_json(report)
    else:
        _print(report)
    return 0 if report.passed else 1


def _print(report: DrillReport) -> None:
    for line in report.lines:
        print(f"{'ok' if line.passed else 'FAILED':<7}{safe(line.done)}")
        print(f"{'':7}expected: {safe(line.expected)}")
        print(f"{'':7}seen:     {safe(line.seen)}")
    if report.passed:
        print(f"drill {report.kind} passed in {report.seconds:.1f} s")
        return
    print(f"drill {report.kind} failed after {report.seconds:.1f} s: {safe(report.why)}")
    if not report.recorded:
        print("  it is not on record")
    print("  next: edgeagent health; the agent's log has the drill's lines, about the device drill-appliance")
