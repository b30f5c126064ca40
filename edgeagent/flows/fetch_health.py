"""How fetched files stand, for health and for who has asked for one; and what to do about it."""

from collections.abc import Mapping, Sequence
from typing import Final

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.reports.fetches import FetchReport
from edgeagent.contracts.reports.health import Check, Level

ADVICE: Final[Mapping[FetchTrouble, str]] = {
    FetchTrouble.UNREACHABLE: "check the network, [artifacts] source or [policy] source, and the proxy",
    FetchTrouble.FORBIDDEN_ADDRESS: "the source's name leads to this machine or a link-local address: "
    "check the name server",
    FetchTrouble.TLS: "check the hub's clock, and ca_file in [artifacts] or [policy]",
    FetchTrouble.LOGIN: "have the proxy let this hub through without a login; a repository needs none",
    FetchTrouble.CAPTIVE_PORTAL: "something between hub and source answers in its place: log in there",
    FetchTrouble.BUSY: "the source asked to wait; try again later",
    FetchTrouble.MISSING: "whoever publishes it copies the repository's targets folder to the source",
    FetchTrouble.BROKEN_ANSWER: "what the source answers is not the file: copy it there anew, or look at "
    "what is between",
    FetchTrouble.TOO_SLOW: "the link is too slow; what has come stays: edgeagent artifacts fetch goes on",
    FetchTrouble.NO_SPACE: "df; edgeagent artifacts gc",
    FetchTrouble.WRONG_BYTES: "the source has another file than was signed: copy it there anew, and find "
    "out who changed it",
    FetchTrouble.STOPPED: "edgeagent artifacts fetch goes on where it was",
    FetchTrouble.NO_FETCHER: "systemctl start edgeagent-fetch.socket, or [fetch] by",
    FetchTrouble.FAILED: "edgeagent health, and the agent's log",
}
"""What to do about it."""

_MEBIBYTE: Final = 1024 * 1024
_MOST_NAMES: Final = 3


def fetch_check(failed: Sequence[FetchReport], taken: int, budget: int, *, has_source: bool) -> Check:
    """Look at fetched files.

    Args:
        failed: the last fetches of those that did not come.
        taken: bytes that all take together.
        budget: bytes that they may.
        has_source: whether there is somewhere to fetch from.
    """
    told = [report for report in failed if report.trouble is not FetchTrouble.STOPPED]
    if told:
        last = told[-1]
        names = ", ".join(report.artifact for report in told[:_MOST_NAMES])
        more = f" and {len(told) - _MOST_NAMES} more" if len(told) > _MOST_NAMES else ""
        return Check(
            name="artifacts",
            level=Level.WARNING,
            summary=f"not fetched: {names}{more}; {last.trouble or 'refused'}: {last.why}",
            advice=last.advice,
        )
    room = f"{taken // _MEBIBYTE} of {budget // _MEBIBYTE} MiB are taken by fetched files"
    if taken > budget:
        return Check(
            name="artifacts",
            level=Level.WARNING,
            summary=room,
            advice="edgeagent artifacts gc; what is left is in use: raise [artifacts] budget",
        )
    words = room if has_source else "there is no source of files for devices"
    return Check(name="artifacts", level=Level.OK, summary=words)
