"""``edgeagent outbox stats``."""

import argparse

from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.status import OutboxReport


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    outbox = nouns.add_parser("outbox", help="what waits for the cloud")
    verbs = outbox.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("stats", help="how much of each stream waits").set_defaults(handler=_stats)


def _stats(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    report = agent.get("/v1/outbox", OutboxReport)
    if arguments.json:
        show_json(report)
        return 0
    table(
        ("stream", "next", "waiting", "bytes", "oldest", "refused"),
        [
            (
                stream,
                str(depth.next),
                str(depth.events),
                str(depth.bytes),
                agent.times.since(depth.oldest),
                str(depth.refused),
            )
            for stream, depth in report.streams.items()
        ],
    )
    return 0
