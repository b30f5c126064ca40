"""``edgeagent dead-letters list | show | replay | discard | export``."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

from edgeagent.cli.arguments import action_of
from edgeagent.cli.asking import Agent, agent_of
from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.guessing import did_you_mean
from edgeagent.cli.printing import safe, short_names, show_json, table
from edgeagent.cli.times import Times
from edgeagent.cli.words import Nouns
from edgeagent.contracts.door import encode
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.dead_letters import (
    DealtsReport,
    DiscardRequest,
    LetterReport,
    LettersReport,
    LettersWanted,
    ReplayRequest,
)
from edgeagent.contracts.scalars import timestamp
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.ids import device_id

EXIT_NOT_DONE: Final = 1
_PATIENCE: Final = 60.0
_DIGITS: Final = 15


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    noun = nouns.add_parser("dead-letters", help="commands that ended badly, kept until somebody looks")
    verbs = noun.add_subparsers(required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="those that wait, oldest first")
    listing.add_argument("--all", action="store_true", help="also those that somebody has dealt with")
    _add_filters(listing)
    listing.set_defaults(handler=_list)
    show = verbs.add_parser("show", help="one, whole; that it was shown goes on record")
    show.add_argument("number", metavar="NUMBER")
    show.set_defaults(handler=_show)
    replay = verbs.add_parser("replay", help="run again what the gate lets run now")
    discard = verbs.add_parser("discard", help="put away one, or those of a filter")
    discard.add_argument("--why", required=True, metavar="TEXT", help="for the record")
    for parser, handler in ((replay, _replay), (discard, _discard)):
        parser.add_argument("number", metavar="NUMBER", nargs="?")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        _add_filters(parser)
        parser.set_defaults(handler=handler)
    export = verbs.add_parser("export", help="all, with their envelopes, a line of JSON each")
    export.add_argument("file", metavar="FILE", type=Path, help="must not exist; - for standard output")
    export.add_argument("--all", action="store_true", help="also those that somebody has dealt with")
    _add_filters(export)
    export.set_defaults(handler=_export)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--action", help="of this action")
    parser.add_argument("--device", help="for this device")
    parser.add_argument("--reason", metavar="CODE", help="that ended for this reason")
    parser.add_argument("--since", metavar="TIME", help="buried since, like 2026-01-02T03:04:05Z")


def _wanted(
    arguments: argparse.Namespace, *, number: str | None = None, dealt: bool = False
) -> LettersWanted:
    reason = arguments.reason
    if reason is not None and reason not in set(Reason):
        near = did_you_mean(reason, Reason)
        raise AdvisedError(f"there is no reason {reason[:40]!r}{near}", "edgeagent dead-letters list")
    return LettersWanted(
        number=None if number is None else _number(number),
        action=None if arguments.action is None else action_of(arguments.action),
        device=None if arguments.device is None else device_id(arguments.device),
        reason=None if reason is None else Reason(reason),
        since=None if arguments.since is None else timestamp(arguments.since),
        dealt=dealt,
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UnknownError(f"{text[:40]!r} is not the number of a dead letter")
    return int(text)


def _list(arguments: argparse.Namespace) -> int:
    wanted = _wanted(arguments, dealt=arguments.all)
    agent = agent_of(arguments)
    report = agent.post("/v1/dead-letters/list", wanted, LettersReport)
    if arguments.json:
        show_json(report)
        return 0
    if not report.letters:
        print("no dead letter waits")
        return 0
    _table(report, agent.times, wide=arguments.wide)
    if len(report.letters) == wanted.most:
        print(f"the oldest {wanted.most}; narrow it by --action, --device, --reason, --since")
    return 0


def _table(report: LettersReport, times: Times, *, wide: bool) -> None:
    names = short_names((letter.command for letter in report.letters), wide=wide)
    table(
        (
            "number",
            "command",
            "device",
            "action",
            "ended",
            "reason",
            "class",
            "sent",
            "buried",
            "dealt with",
        ),
        [
            (
                str(letter.number),
                names[letter.command],
                letter.device,
                letter.action,
                letter.outcome,
                letter.reason or "",
                letter.blame,
                str(letter.attempts),
                times.since(letter.buried_at),
                letter.dealt or "",
            )
            for letter in report.letters
        ],
    )


def _show(arguments: argparse.Namespace) -> int:
    path = f"/v1/dead-letters/{_number(arguments.number)}/show"
    agent = agent_of(arguments)
    report = agent.post(path, LettersWanted(), LettersReport)
    if arguments.json:
        show_json(report)
        return 0
    for letter in report.letters:
        _show_one(letter, agent.times)
    return 0


def _show_one(letter: LetterReport, times: Times) -> None:
    words = [f"{name}={json.dumps(value)}" for name, value in (letter.arguments or {}).items()]
    reason = "" if letter.reason is None else f": {letter.reason}: {letter.meaning}"
    print(f"{letter.number}  {letter.command}  {letter.device}  {' '.join([letter.action, *words])}")
    print(f"ended     {letter.outcome}{reason}{f' ({safe(letter.detail)})' if letter.detail else ''}")
    print(f"class     {letter.blame}")
    print(f"payload   sha256 {letter.sha256}")
    print(f"lane      {letter.lane}, run {letter.run}, sent {letter.attempts} times")
    if letter.steps:
        print(f"steps     {', '.join(safe(step) for step in letter.steps)}")
    print(f"lock      fence {letter.fence}, {safe(letter.worker) if letter.worker else 'never claimed'}")
    print(f"issuer    {letter.issuer}")
    print(f"on record {safe(letter.actor)}")
    print(f"came      {times.since(letter.received_at)}, ended {times.since(letter.buried_at)}")
    print(f"expires   {times.until(letter.expires_at)}")
    if letter.dealt is not None:
        became = "" if letter.replayed_as is None else f", row {letter.replayed_as}"
        why = f": {safe(letter.dealt_why)}" if letter.dealt_why else ""
        print(f"dealt     {letter.dealt} by {safe(letter.dealt_by or '')}{became}{why}")


def _replay(arguments: argparse.Namespace) -> int:
    request = ReplayRequest(wanted=_wanted(arguments, number=arguments.number), dry_run=arguments.dry_run)
    report = agent_of(arguments).post("/v1/dead-letters/replay", request, DealtsReport, patience=_PATIENCE)
    return _print_dealt(arguments, report)


def _discard(arguments: argparse.Namespace) -> int:
    request = DiscardRequest(
        wanted=_wanted(arguments, number=arguments.number), why=arguments.why, dry_run=arguments.dry_run
    )
    report = agent_of(arguments).post("/v1/dead-letters/discard", request, DealtsReport, patience=_PATIENCE)
    return _print_dealt(arguments, report)


def _print_dealt(arguments: argparse.Namespace, report: DealtsReport) -> int:
    refused = any(letter.done == "refused" for letter in report.letters)
    if arguments.json:
        show_json(report)
        return EXIT_NOT_DONE if refused else 0
    would = "would be " if report.dry_run else ""
    for letter in report.letters:
        why = "" if letter.reason is None else f": {letter.reason}: {letter.reason.sentence}"
        detail = f" ({safe(letter.detail)})" if letter.detail else ""
        print(f"{letter.number}  {letter.command}  {letter.device}  {would}{letter.done}{why}{detail}")
        if letter.done == "held" and letter.reason is Reason.NEEDS_APPROVAL and not report.dry_run:
            print(f"  next: another person types edgeagent commands approve {letter.command} {letter.device}")
    if not report.letters:
        print("no dead letter that waits fits")
    return EXIT_NOT_DONE if refused else 0


def _export(arguments: argparse.Namespace) -> int:
    agent, wanted, lines = agent_of(arguments), _wanted(arguments, dealt=arguments.all), 0
    if str(arguments.file) == "-":
        for letter in _pages(agent, wanted):
            sys.stdout.write(encode(letter).decode() + "\n")
        return 0
    try:
        # Commands that people signed, whole: for whoever exports them alone.
        handle = os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as why:
        raise RejectedError(f"{arguments.file}: {why.strerror}") from why
    whole = False
    try:
        with os.fdopen(handle, "wb") as out:
            for letter in _pages(agent, wanted):
                out.write(encode(letter) + b"\n")
                lines += 1
        whole = True
    except OSError as why:
        raise RejectedError(f"cannot write {arguments.file}: {why.strerror}") from why
    finally:
        if not whole:
            arguments.file.unlink(missing_ok=True)
    if arguments.json:
        show_json({"file": str(arguments.file), "letters": lines})
    else:
        print(f"{lines} dead letters in {safe(str(arguments.file))}")
    return 0


def _pages(agent: Agent, wanted: LettersWanted) -> "list[LetterReport]":
    letters: list[LetterReport] = []
    while True:
        page = agent.post("/v1/dead-letters/export", wanted, LettersReport, patience=_PATIENCE).letters
        letters += page
        if len(page) < wanted.most:
            return letters
        wanted = wanted.model_copy(update={"after": page[-1].number})
