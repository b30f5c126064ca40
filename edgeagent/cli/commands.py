"""``edgeagent send`` and ``edgeagent commands list | show | trace | approve``."""

import argparse
import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from edgeagent.cli.agreeing import agrees
from edgeagent.cli.arguments import action_of, arguments_of, length_of_time
from edgeagent.cli.asking import agent_of
from edgeagent.cli.command_trace import trace
from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.printing import advise, safe, short_names, show_json, table
from edgeagent.cli.remedies import remedy
from edgeagent.cli.times import Times
from edgeagent.cli.words import Nouns
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.approvals import ApprovalReport, ApproveRequest
from edgeagent.contracts.reports.commands import CommandReport, CommandsReport, SendReport, SendRequest
from edgeagent.contracts.scalars import duration_text
from edgeagent.core.short_names import meant, named_whole
from edgeagent.errors import AmbiguousError, UnknownError
from edgeagent.ids import command_id, device_id
from edgeagent.ids import operation as checked_operation

EXIT_NOT_DONE: Final = 1
EXIT_UNKNOWN: Final = 3
EXIT_STILL_OPEN: Final = 4
_TOLD: Final = 5
_DIGEST: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_MARGIN: Final = timedelta(seconds=10)


def add_to(nouns: Nouns) -> None:
    """Add the words of these nouns."""
    send = nouns.add_parser(
        "send",
        help="have a device do something",
        description="Have a device do something. Exit 0 done; 1 refused, failed, expired, superseded; "
        "3 sent, outcome unknown; 4 not ended yet.",
    )
    send.add_argument("device", metavar="DEVICE")
    send.add_argument("action", metavar="ACTION", help=", ".join(ActionName))
    send.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[])
    send.add_argument("--wait", type=length_of_time, default=timedelta(seconds=30), help="for its end (30s)")
    send.add_argument("--operation", help="the intent, if an earlier command had the same")
    send.add_argument("--if-version", type=int, help="only if the device is at this version")
    send.set_defaults(handler=_send)
    commands = nouns.add_parser("commands", help="the commands that came")
    verbs = commands.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("list", help="the last ones").set_defaults(handler=_list)
    show = verbs.add_parser("show", help="one on each of its devices, with its receipt")
    show.add_argument("command", metavar="COMMAND")
    show.set_defaults(handler=_show)
    way = verbs.add_parser("trace", help="its way as a timeline, also while the agent is down")
    way.add_argument("command", metavar="COMMAND")
    way.set_defaults(handler=trace)
    approve = verbs.add_parser("approve", help="agree to a command that waits for it")
    approve.add_argument("command", metavar="COMMAND")
    approve.add_argument("device", metavar="DEVICE", nargs="?", help="for this device")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    approve.set_defaults(handler=_approve)


def _send(arguments: argparse.Namespace) -> int:
    action = action_of(arguments.action)
    request = SendRequest(
        device=device_id(arguments.device),
        action=action,
        arguments=arguments_of(action, arguments.arguments),
        operation=None if arguments.operation is None else checked_operation(arguments.operation),
        precondition=None if arguments.if_version is None else Precondition(version=arguments.if_version),
        wait=arguments.wait,
    )
    patience = (arguments.wait + _MARGIN).total_seconds()
    report = agent_of(arguments).post("/v1/commands", request, SendReport, patience=patience)
    if arguments.json:
        show_json(report)
    elif report.command is None or report.refused is not None:
        print(f"{arguments.device} {action}: refused: {_why(report.refused, report.detail)}")
    else:
        print(f"{arguments.device} {action}: {_line(report.command)}")
    if not arguments.json:
        advise(_next_after(report, request))
    return _exit_status(report)


def _next_after(report: SendReport, request: SendRequest) -> str:
    """What to type after a command that was not done."""
    command = report.command
    receipt = None if command is None else command.receipt
    reason = report.refused or (None if command is None else command.reason)
    if receipt is not None:
        reason = None if receipt.outcome is Outcome.SUCCEEDED else receipt.reason
    name = "COMMAND" if command is None else command.command
    return remedy(reason, device=request.device, action=request.action, command=name)


def _exit_status(report: SendReport) -> int:
    if report.refused is not None or report.command is None:
        return EXIT_NOT_DONE
    receipt = report.command.receipt
    if receipt is None:
        return EXIT_STILL_OPEN
    return {Outcome.SUCCEEDED: 0, Outcome.UNKNOWN: EXIT_UNKNOWN}.get(receipt.outcome, EXIT_NOT_DONE)


def _list(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    report = agent.get("/v1/commands", CommandsReport)
    if arguments.json:
        show_json(report)
        return 0
    if not report.commands:
        print("no command has come")
        return 0
    names, times = short_names((each.command for each in report.commands), wide=arguments.wide), agent.times
    table(
        ("command", "device", "action", "state", "reason", "attempts", "came"),
        [
            (
                names[command.command],
                command.device,
                _asked(command, short=not arguments.wide),
                command.state,
                command.reason or "",
                str(command.attempts),
                times.since(command.received_at),
            )
            for command in report.commands
        ],
    )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    report = agent.get(f"/v1/commands/{command_id(arguments.command)}", CommandsReport)
    if arguments.json:
        show_json(report)
        return 0
    for number, command in enumerate(report.commands):
        if number:
            print()
        _show_one(command, agent.times)
    return 0


def _show_one(command: CommandReport, times: Times) -> None:
    print(f"{command.command}  {command.device}  {_asked(command)}")
    print(f"state     {_line(command)}")
    print(f"payload   sha256 {command.sha256}")
    print(f"lane      {command.lane}, run {command.run}, sent {command.attempts} times")
    print(f"issuer    {command.issuer}")
    print(f"on record {safe(command.actor)}")
    print(f"came      {times.since(command.received_at)}, {_ending(command.expires_at, times)}")
    if command.update is not None:
        update = command.update
        told = "" if update.percent is None else f", {update.percent} % told"
        print(f"update    {update.stage}: {safe(update.earlier)} to {safe(update.wanted)}{told}")
    if command.last_error:
        print(f"error     {safe(command.last_error)}")
    if command.receipt is None or command.receipt.outcome is not Outcome.SUCCEEDED:
        following = remedy(
            command.reason, device=command.device, action=command.action, command=command.command
        )
        if following:
            print(f"next      {following}")


def _ending(moment: datetime, times: Times) -> str:
    over = times.now is not None and moment <= times.now
    return f"{'expired' if over else 'expires'} {times.until(moment)}"


def _approve(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    found = agent.get(f"/v1/commands/{command_id(arguments.command)}", CommandsReport).commands
    command = _on_device(found, arguments.device)
    name = command.command
    if arguments.yes:
        # Nobody looks at what these are the beginnings of.
        named_whole(arguments.command, name)
        named_whole(arguments.device or command.device, command.device)
    if not arguments.json:
        print(f"command  {name}\ndevice   {command.device}")
        print(f"action   {_asked(command)}\nissuer   {command.issuer}")
        if command.actor != command.issuer:
            print(f"typed by {safe(command.actor)}")
        print(f"state    {_line(command)}\npayload  sha256 {command.sha256}")
    look = f"edgeagent commands show {name}, and add --yes"
    if not arguments.yes and not agrees(f"Approve {name}?", look):
        raise AdvisedError("not approved", f"edgeagent commands show {name}")
    request = ApproveRequest(sha256=command.sha256, device=command.device)
    report = agent.post(f"/v1/commands/{name}/approve", request, ApprovalReport)
    if arguments.json:
        show_json(report)
    else:
        print(f"{name} on {report.device} approved for {duration_text(report.good_for)} by {safe(report.by)}")
    return 0


def _on_device(found: Sequence[CommandReport], typed: str | None) -> CommandReport:
    """The one that is meant of a command's devices; the beginning of its device's id will do.

    Raises:
        UnknownError: it is for none that is called so.
        AmbiguousError: for several.
    """
    name, devices = found[0].command, [each.device for each in found]
    if typed is None and len(found) > 1:
        raise AmbiguousError(f"{name} is for {_some(devices)}: name one")
    wanted = found[0].device if typed is None else device_id(typed)
    wanted = device_id(meant(wanted, sorted(each for each in devices if each.startswith(wanted))))
    for command in found:
        if command.device == wanted:
            return command
    raise UnknownError(f"{name} is not for {wanted}, but {_some(devices)}")


def _some(devices: Sequence[str]) -> str:
    more = f" and {len(devices) - _TOLD} more" if len(devices) > _TOLD else ""
    return ", ".join(devices[:_TOLD]) + more


def _asked(command: CommandReport, *, short: bool = False) -> str:
    """What is asked for, as it is typed; with short digests where there is little room."""
    words = [f"{name}={json.dumps(value)}" for name, value in command.arguments.items()]
    text = " ".join([command.action, *words])
    return _DIGEST.sub(r"\1…", text) if short else text


def _line(command: CommandReport) -> str:
    """How a command stands, in a line."""
    receipt = command.receipt
    if receipt is None:
        return f"{command.state}{': ' + command.meaning if command.meaning else ''}"
    level = f" ({receipt.level})" if receipt.level else ""
    reason = f": {_why(receipt.reason, receipt.detail or '')}" if receipt.reason else ""
    return f"{receipt.outcome}{level}{reason}"


def _why(reason: Reason | None, detail: str) -> str:
    if reason is None:
        return safe(detail)
    return f"{reason}: {reason.sentence}{' (' + safe(detail) + ')' if detail else ''}"
