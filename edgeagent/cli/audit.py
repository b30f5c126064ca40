"""``edgeagent audit list | show | verify | export``."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from edgeagent import config as configuration
from edgeagent.cli.asking import Agent, agent_of
from edgeagent.cli.failing import AgentDownError, AskingRefusedError
from edgeagent.cli.printing import complain, safe, show_json, table
from edgeagent.cli.times import Times
from edgeagent.cli.words import Nouns
from edgeagent.clock import ClockSource
from edgeagent.config import Config
from edgeagent.contracts.receipt import AuditMark
from edgeagent.contracts.reports.audit import (
    AuditRowReport,
    AuditRowsReport,
    ExportPage,
    ExportReport,
    ExportWanted,
    RowsWanted,
    VerifyReport,
    VerifyWanted,
)
from edgeagent.contracts.reports.refusal import Kind
from edgeagent.contracts.scalars import timestamp
from edgeagent.errors import RejectedError
from edgeagent.ids import digest

EXIT_BROKEN: Final = 2
_PATIENCE: Final = 600.0
_PART: Final = 1000
_TRIES: Final = 5


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    audit = nouns.add_parser("audit", help="what was done, by whom; and whether that record is whole")
    verbs = audit.add_subparsers(required=True, metavar="VERB")
    rows = verbs.add_parser("list", help="the newest rows")
    rows.add_argument("--kind", help="only of this kind, like command_settled")
    rows.add_argument("--subject", help="only about this device, command or file")
    rows.add_argument("--since", metavar="TIME", help="only from this time on, like 2026-01-02T03:04:05Z")
    rows.add_argument("--most", type=int, default=50, help="at most so many (50)")
    rows.set_defaults(handler=_list)
    show = verbs.add_parser("show", help="one row")
    show.add_argument("number", type=int, metavar="NUMBER")
    show.set_defaults(handler=_show)
    verify = verbs.add_parser(
        "verify",
        help="whether the record is whole, also while the agent is down",
        description="Follow the whole record. Exit 0: it holds; 2: it does not; names the first bad row.",
    )
    verify.add_argument(
        "--head", metavar="NUMBER-HASH", help="a row that somebody else knows; see edgeagent issuer hub show"
    )
    verify.set_defaults(handler=_verify)
    export = verbs.add_parser("export", help="write the record, with its signed heads, to a new file")
    export.add_argument("file", type=Path, metavar="FILE")
    export.set_defaults(handler=_export)


def _list(arguments: argparse.Namespace) -> int:
    wanted = RowsWanted(
        most=arguments.most,
        kind=arguments.kind,
        subject=arguments.subject,
        since=None if arguments.since is None else timestamp(arguments.since),
    )
    agent = agent_of(arguments)
    report = agent.post("/v1/audit/rows", wanted, AuditRowsReport)
    if arguments.json:
        show_json(report)
        return 0
    table(
        ("number", "time", "kind", "subject", "actor", "detail"),
        [
            (str(row.number), _when(row, agent.times), row.kind, row.subject, row.actor, row.detail)
            for row in report.rows
        ],
    )
    return 0


def _when(row: AuditRowReport, times: Times) -> str:
    """When a row was written, and what that rests on; as it stands where it rests on nothing."""
    proven = row.clock != ClockSource.NONE
    return f"{times.since(timestamp(row.at)) if proven else row.at} {row.clock}"


def _show(arguments: argparse.Namespace) -> int:
    row = agent_of(arguments).get(f"/v1/audit/rows/{arguments.number}", AuditRowReport)
    if arguments.json:
        show_json(row)
        return 0
    for name, value in row.model_dump().items():
        print(f"{name:8} {safe(str(value))}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    wanted = VerifyWanted(head=None if arguments.head is None else _mark(arguments.head))
    try:
        report = Agent(config.admin_socket).post("/v1/audit/verify", wanted, VerifyReport, patience=_PATIENCE)
    except AgentDownError:
        report = _verify_alone(config, wanted)
    if arguments.json:
        show_json(report)
    elif report.broken is not None:
        complain(f"the record is broken at row {report.broken.number}: {report.broken.why}")
    else:
        pruned = f", begun after row {report.begins_after}" if report.begins_after else ""
        print(f"whole: {report.head.number} rows{pruned}, {report.checkpoints} checkpoints")
        print(f"head  {report.head.number}-{report.head.hash}")
    return 0 if report.broken is None else EXIT_BROKEN


def _verify_alone(config: Config, wanted: VerifyWanted) -> VerifyReport:
    """Follow the record without an agent, from its files."""
    from edgeagent.flows.trail_desk import TrailCheck
    from edgeagent.store import audit, checkpoints
    from edgeagent.store.hubkey import public_half
    from edgeagent.store.reading import read_only

    with read_only(config.database) as db:
        key = public_half(config.hub.state_dir / "hub.key")
        check = TrailCheck(config.hub.id, key, checkpoints.basis(db), wanted.head)
        while check.wants_checkpoints:
            check.take_checkpoints(checkpoints.page(db, after=check.checkpoint, most=_PART))
        check.take_told(audit.told(db))
        while check.wants_rows:
            check.take_rows(audit.rows(db, after=check.row, most=_PART))
        return check.report()


def _export(arguments: argparse.Namespace) -> int:
    agent, file = agent_of(arguments), arguments.file
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as why:
        raise RejectedError(f"cannot make {file}: {why.strerror}") from why
    whole = False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            head = _write(agent, out, ExportWanted(file=_name(file)))
            out.flush()
            os.fsync(out.fileno())
        whole = True
    except OSError as why:
        raise RejectedError(f"cannot write {file}: {why.strerror}") from why
    finally:
        if not whole:
            file.unlink(missing_ok=True)
    # Only now may the hub ever drop these rows.
    agent.post_done(f"/v1/audit/exports/{head.upto.number}/done")
    if arguments.json:
        show_json({"file": str(file), "first": head.basis.number + 1, "last": head.upto.number})
    else:
        print(f"rows {head.basis.number + 1} to {head.upto.number}: {safe(str(file))}", file=sys.stderr)
    return 0


def _write(agent: Agent, out: TextIO, wanted: ExportWanted) -> ExportReport:
    """Write an export; anew where rows of it are dropped while it is written."""
    tries = 1
    while True:
        head = agent.post("/v1/audit/exports", wanted, ExportReport)
        try:
            out.writelines(line + "\n" for line in _lines(agent, head))
        except AskingRefusedError as why:
            if why.kind is not Kind.BUSY or tries == _TRIES:
                raise
            tries += 1
            out.seek(0)
            out.truncate()
        else:
            return head


def _lines(agent: Agent, head: ExportReport) -> Iterator[str]:
    """The lines of an export: whose it is, then each row, each signed head after its row."""
    yield _json({"trail": head.model_dump(mode="json")})
    after = head.basis.number
    while after < head.upto.number:
        page = agent.get(f"/v1/audit/exports/{head.upto.number}/after/{after}", ExportPage)
        if not page.rows:
            raise RejectedError("the agent gave fewer rows than it had announced")
        signed = {each.audit.number: each for each in page.checkpoints}
        for row in page.rows:
            fields = [row.number, row.at, row.clock, row.kind, row.subject, row.actor, row.detail]
            yield _json({"row": fields, "hash": row.hash})
            if row.number in signed:
                told = signed[row.number].model_dump(mode="json", exclude_none=True)
                yield _json({"checkpoint": told})
        after = page.rows[-1].number


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _name(file: Path) -> str:
    """A file's name for the record, cleaned and cut."""
    return safe(file.name)[:200] or "file"


def _mark(text: str) -> AuditMark:
    number, _, rest = text.partition("-")
    if not (number.isascii() and number.isdigit()) or len(number) > 15:  # noqa: PLR2004 - a row's number
        raise RejectedError("not NUMBER-HASH, the head of an audit trail")
    return AuditMark(number=int(number), hash=digest(rest))
