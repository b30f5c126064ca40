"""``edgeagent breakers list | show | trip | reset``."""

import argparse
from collections.abc import Sequence
from typing import Final

from edgeagent.cli.arguments import action_of
from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.times import Times, length
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.breakers import BreakerReport, BreakerRequest, BreakersReport
from edgeagent.core.short_names import meant
from edgeagent.errors import AmbiguousError, RejectedError, UnknownError

_SCOPE: Final = "ACTION@ORIGIN; the origin is a key's name in the policy, its id, or hub"
_SHOWN: Final = 12


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    noun = nouns.add_parser("breakers", help="what was stopped by itself, by action and origin")
    verbs = noun.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("list", help="those that are not closed, and what is counted").set_defaults(
        handler=_list
    )
    show = verbs.add_parser("show", help="one of them")
    show.add_argument("scope", metavar="SCOPE", help=_SCOPE)
    show.set_defaults(handler=_show)
    trip = verbs.add_parser("trip", help="open one, until it is reset")
    reset = verbs.add_parser("reset", help="close one")
    for verb, parser in (("trip", trip), ("reset", reset)):
        parser.add_argument("scope", metavar="SCOPE", help=_SCOPE)
        parser.add_argument("--reason", required=True, metavar="TEXT", help="for the record")
        parser.set_defaults(handler=_throw, verb=verb)


def _list(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    report = agent.get("/v1/breakers", BreakersReport)
    return _print(arguments, report, agent.times)


def _throw(arguments: argparse.Namespace) -> int:
    action, origin = _scope(arguments.scope)
    request = BreakerRequest(action=action_of(action), origin=origin, reason=arguments.reason)
    agent = agent_of(arguments)
    report = agent.post(f"/v1/breakers/{arguments.verb}", request, BreakersReport)
    return _print(arguments, report, agent.times)


def _show(arguments: argparse.Namespace) -> int:
    action, origin = _scope(arguments.scope)
    agent = agent_of(arguments)
    report = agent.get("/v1/breakers", BreakersReport)
    action_of(action)
    breaker = _called(origin, [each for each in report.breakers if each.action == action])
    if breaker is None:
        raise UnknownError(f"{arguments.scope}: closed, and nothing is counted towards it")
    if arguments.json:
        show_json(breaker)
        return 0
    _print_one(breaker, report.when_open, agent.times)
    return 0


def _scope(text: str) -> tuple[str, str]:
    action, sign, origin = text.partition("@")
    if not (action and sign and origin):
        raise RejectedError(f"{text!r} is no scope: {_SCOPE}")
    return action, origin


def _called(origin: str, breakers: Sequence[BreakerReport]) -> BreakerReport | None:
    """The one whose origin is called so, or has an id that begins so.

    Raises:
        AmbiguousError: there are several.
    """
    called = {each.origin: each for each in breakers if each.name == origin}
    begin_so = sorted(each.origin for each in breakers if each.origin.startswith(origin))
    if len(called) > 1:
        raise AmbiguousError(f"several keys are called {origin}: {', '.join(called)}")
    by_id: dict[str, BreakerReport] = {each.origin: each for each in breakers}
    return next(iter(called.values()), None) or by_id.get(meant(origin, begin_so))


def _print(arguments: argparse.Namespace, report: BreakersReport, times: Times) -> int:
    if arguments.json:
        show_json(report)
        return 0
    if all(breaker.phase == "closed" for breaker in report.breakers):
        print("no breaker is open")
    if report.breakers:
        table(
            ("scope", "stands", "since", "next try", "why"),
            [
                (
                    f"{breaker.action}@{breaker.name or breaker.origin[:_SHOWN]}",
                    breaker.phase,
                    times.since(breaker.opened_at),
                    _left(breaker),
                    breaker.why or _counted(breaker),
                )
                for breaker in report.breakers
            ],
        )
    return 0


def _print_one(breaker: BreakerReport, when_open: str, times: Times) -> None:
    print(f"{breaker.action} of {safe(breaker.name) or 'a key'} {breaker.origin}")
    print(f"stands    {breaker.phase}{f', commands: {when_open}' if breaker.phase == 'open' else ''}")
    if breaker.opened_at is not None:
        print(f"opened    {times.since(breaker.opened_at)} by {breaker.signal}: {safe(breaker.why)}")
        print(f"next try  {_left(breaker)}")
    if breaker.probe is not None:
        print(f"tries     run {breaker.probe}")
    if breaker.counted:
        print(f"counted   {_counted(breaker)}")


def _left(breaker: BreakerReport) -> str:
    if breaker.phase == "open":
        return "reset only" if breaker.left is None else f"in {length(breaker.left)}"
    return "now" if breaker.phase == "half_open" else "-"


def _counted(breaker: BreakerReport) -> str:
    return ", ".join(f"{number} {signal}" for signal, number in breaker.counted.items())
