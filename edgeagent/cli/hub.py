"""``edgeagent hub stop | resume | stops``: the kill switch."""

import argparse
from typing import Final

from edgeagent.cli.arguments import KINDS, kind_of
from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import show_json, table
from edgeagent.cli.times import Times
from edgeagent.cli.words import Nouns
from edgeagent.contracts.order import Verb
from edgeagent.contracts.reports.switch import StopsReport, SwitchRequest

_REASON: Final = "for the record"


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    hub = nouns.add_parser("hub", help="the hub itself: stop and resume kinds of command")
    verbs = hub.add_subparsers(required=True, metavar="VERB")
    stop = verbs.add_parser("stop", help="refuse commands of a kind at once, those that wait included")
    resume = verbs.add_parser("resume", help="take them again; what was refused stays refused")
    for verb, parser in ((Verb.STOP, stop), (Verb.RESUME, resume)):
        parser.add_argument("kind", metavar="KIND", help=KINDS)
        parser.add_argument("--reason", "--why", dest="why", default="", metavar="TEXT", help=_REASON)
        parser.set_defaults(handler=_throw, verb=verb)
    verbs.add_parser("stops", help="what is stopped, by whom and why").set_defaults(handler=_stops)


def _throw(arguments: argparse.Namespace) -> int:
    request = SwitchRequest(kind=kind_of(arguments.kind), why=arguments.why)
    agent = agent_of(arguments)
    report = agent.post(f"/v1/stops/{arguments.verb}", request, StopsReport)
    return _show(arguments, report, agent.times)


def _stops(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    report = agent.get("/v1/stops", StopsReport)
    return _show(arguments, report, agent.times)


def _show(arguments: argparse.Namespace, report: StopsReport, times: Times) -> int:
    if arguments.json:
        show_json(report)
        return 0
    if not any(stop.stopped for stop in report.stops):
        print("nothing is stopped")
    if report.stops:
        table(
            ("kind", "stands", "since", "by", "why"),
            [
                (stop.kind, "stopped" if stop.stopped else "resumed", times.since(stop.at), stop.by, stop.why)
                for stop in report.stops
            ],
        )
    return 0
