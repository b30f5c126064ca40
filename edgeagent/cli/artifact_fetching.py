"""``edgeagent artifacts fetch | gc``: have files for devices here, and remove those that nobody uses."""

import argparse
import sys
import time
from typing import Final

from edgeagent.cli.asking import Agent, agent_of
from edgeagent.cli.failing import AskingRefusedError
from edgeagent.cli.printing import advise, complain, safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.fetches import CollectReport, CollectRequest, FetchReport, FetchState
from edgeagent.ids import artifact_id

# In seconds; each question costs the agent a millisecond.
_LOOK_EVERY: Final = 0.3
_FIRST_LOOKS: Final = 0.05
_EXIT_FAILED: Final = 1
_MEBIBYTE: Final = 1024 * 1024


def add_fetching(verbs: Nouns) -> None:
    """Add the words about what is here."""
    fetch = verbs.add_parser(
        "fetch",
        help="fetch a file now, and verify it; exit 0 here, 1 not",
        description="Fetch a file now, and verify it. Interrupted, what has come stays, and the same command "
        "goes on from there.",
    )
    fetch.add_argument("artifact", type=artifact_id, metavar="ID", help="of the artifact")
    fetch.set_defaults(handler=_fetch)
    collect = verbs.add_parser(
        "gc", help="remove fetched files that nobody has used for long, or are too much"
    )
    collect.add_argument("--dry-run", action="store_true", help="only say which these are")
    collect.set_defaults(handler=_collect)


def _fetch(arguments: argparse.Namespace) -> int:
    agent, path = agent_of(arguments), f"/v1/artifacts/{arguments.artifact}/fetch"
    report = agent.post(path, CollectRequest(), FetchReport)
    try:
        report = _watched(agent, path, report, shown=not arguments.json and sys.stderr.isatty())
    except KeyboardInterrupt:
        _stop(agent, path)
        raise
    if arguments.json:
        show_json(report)
    elif report.state is FetchState.FETCHED:
        print(f"{report.artifact} is here, whole: {report.length} bytes, sha256 {report.sha256}")
    else:
        complain(f"{report.artifact} is not here: {report.why}", report.advice)
    return 0 if report.state is FetchState.FETCHED else _EXIT_FAILED


def _watched(agent: Agent, path: str, report: FetchReport, *, shown: bool) -> FetchReport:
    """Follow a fetch to its end."""
    pause = _FIRST_LOOKS
    while not report.is_over:
        if shown:
            print(f"\r\x1b[K{_line(report)}", end="", file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(_LOOK_EVERY, pause * 2)
        report = agent.get(path, FetchReport)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return report


def _line(report: FetchReport) -> str:
    share = 100 * report.bytes // max(1, report.length)
    came = f"{report.bytes / _MEBIBYTE:.1f} of {report.length / _MEBIBYTE:.1f} MiB, {share} %"
    if report.state is FetchState.RETRYING:
        return f"{report.artifact}: {came}; tried {report.tries} times: {safe(report.why)}"[:110]
    return f"{report.artifact}: {report.state}, {came}"


def _stop(agent: Agent, path: str) -> None:
    try:
        report = agent.delete(path, FetchReport)
    except AskingRefusedError as why:
        complain(f"the fetch goes on: {why}")
        return
    complain(f"stopped; {report.bytes} of {report.length} bytes are here")
    advise(f"edgeagent artifacts fetch {report.artifact} goes on from there")


def _collect(arguments: argparse.Namespace) -> int:
    request = CollectRequest(dry_run=arguments.dry_run)
    report = agent_of(arguments).post("/v1/artifacts/collect", request, CollectReport)
    if arguments.json:
        show_json(report)
        return 0
    if report.removed:
        rows = [[each.sha256, str(each.bytes), str(each.why)] for each in report.removed]
        table(["SHA256", "BYTES", "WHY"], rows)
    done = "would be removed" if report.dry_run else "removed"
    total = sum(each.bytes for each in report.removed)
    print(f"{len(report.removed)} {done}, {total} bytes; {report.kept_bytes} bytes stay")
    return 0
