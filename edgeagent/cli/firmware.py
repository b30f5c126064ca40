"""``edgeagent firmware plan | status | pause | resume | abort | cancel``: devices that are updated."""

import argparse
from datetime import datetime
from typing import Final

from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import advise, safe, short_names, show_json, table
from edgeagent.cli.times import length
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.rollouts import (
    CancelAnswer,
    CancelReport,
    CancelRequest,
    PlannedDevice,
    PlanReport,
    PlanRequest,
    RolloutDevice,
    RolloutReport,
    RolloutsReport,
    SteerRequest,
)
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.errors import RejectedError
from edgeagent.ids import artifact_id, command_id, device_id

_PATIENCE: Final = 30.0
_EXITS: Final = {CancelAnswer.DENIED: 1, CancelAnswer.NONE: 3}
_ANSWERS: Final = {
    CancelAnswer.NOT_NEEDED: "{}, nothing was set off",
    CancelAnswer.TAKEN: "it says that it stops; the version that runs tells what becomes of it",
    CancelAnswer.DENIED: "it does not stop",
    CancelAnswer.NONE: "it was told to stop, and has not answered yet",
}


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    noun = nouns.add_parser("firmware", help="lists of devices that are updated")
    verbs = noun.add_subparsers(required=True, metavar="VERB")
    plan = verbs.add_parser("plan", help="what would become of an update; nothing is done")
    plan.add_argument("command", metavar="ID", nargs="?", type=command_id, help="of a command that has come")
    plan.add_argument("--artifact", metavar="ARTIFACT", type=artifact_id, help="instead: which file")
    plan.add_argument(
        "--device", metavar="DEVICE", type=device_id, action="append", default=[], help="and whom for"
    )
    plan.set_defaults(handler=_plan)
    status = verbs.add_parser("status", help="how they stand")
    status.add_argument("command", metavar="ID", nargs="?", type=command_id, help="one list, by device")
    status.set_defaults(handler=_status)
    for verb, words in (
        ("pause", "begin nothing more of a list"),
        ("resume", "let a list go on that is paused or stopped"),
        ("abort", "cancel what is not begun of a list; what is under way goes on"),
    ):
        steer = verbs.add_parser(verb, help=words, description=f"{words.capitalize()}. It is put on record.")
        steer.add_argument("command", metavar="ID", type=command_id)
        steer.add_argument("--reason", required=True, metavar="TEXT", help="for the record")
        steer.set_defaults(handler=_steer, verb=verb)
    cancel = verbs.add_parser(
        "cancel",
        help="call off the update of one device",
        description="Call off the update of one device. What has not set anything off ends; what runs is "
        "told to stop, once, where its family can. It is put on record. Exit 0 ended, or the device says so; "
        "1 it does not stop; 3 sent, not answered yet.",
    )
    cancel.add_argument("command", metavar="ID", type=command_id)
    cancel.add_argument("device", metavar="DEVICE", nargs="?", type=device_id, help="of a list: which")
    cancel.add_argument("--reason", required=True, metavar="TEXT", help="for the record")
    cancel.set_defaults(handler=_cancel)


def _plan(arguments: argparse.Namespace) -> int:
    if (arguments.command is None) == (arguments.artifact is None) or (
        arguments.artifact is not None and not arguments.device
    ):
        raise RejectedError("name a command, or --artifact with one --device or more")
    agent = agent_of(arguments)
    if arguments.command is not None:
        report = agent.get(f"/v1/rollouts/{arguments.command}/plan", PlanReport)
    else:
        request = PlanRequest(artifact=arguments.artifact, devices=arguments.device)
        report = agent.post("/v1/plans", request, PlanReport)
    if arguments.json:
        show_json(report)
        return 0
    print(f"{safe(report.artifact)} {safe(report.version or 'of which nobody tells the version')}")
    at_once = "as many as the tier allows" if report.parallel is None else str(report.parallel)
    print(f"at once   {at_once}")
    print(f"first     {report.canary}")
    print(f"stops     {'never' if report.stop_after is None else f'after {report.stop_after} bad ends'}")
    print(f"begins    {_moment(report.begins)}")
    print(f"over      {_moment(report.ends)}")
    if report.devices:
        table(("device", "runs", "turn", "lasts", "refused"), [_planned(each) for each in report.devices])
    return 0


def _moment(moment: datetime | None) -> str:
    return "nobody can tell" if moment is None else timestamp_text(moment.replace(microsecond=0))


def _planned(device: PlannedDevice) -> tuple[str, ...]:
    turn = "-" if device.refused is not None else "first" if device.canary else "then"
    refused = "" if device.refused is None else f"{device.refused}: {device.detail}".removesuffix(": ")
    return (device.device, device.runs or "-", turn, length(device.lasts), refused)


def _status(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    if arguments.command is not None:
        return _show(arguments, agent.get(f"/v1/rollouts/{arguments.command}", RolloutReport))
    report = agent.get("/v1/rollouts", RolloutsReport)
    if arguments.json:
        show_json(report)
    elif report.rollouts:
        names = short_names((each.command for each in report.rollouts), wide=arguments.wide)
        head = (
            "command",
            "artifact",
            "stands",
            "done",
            "bad",
            "under way",
            "left",
            "never begun",
            "waits for",
        )
        table(head, [(names[each.command], *_row(each)) for each in report.rollouts])
    else:
        print("no update of devices has come")
    return 0


def _row(rollout: RolloutReport) -> tuple[str, ...]:
    numbers = (rollout.succeeded, rollout.bad, rollout.under_way, rollout.left, rollout.never)
    return (rollout.artifact, _stands(rollout), *map(str, numbers), rollout.waits or "-")


def _steer(arguments: argparse.Namespace) -> int:
    request = SteerRequest(reason=arguments.reason)
    path = f"/v1/rollouts/{arguments.command}/{arguments.verb}"
    return _show(arguments, agent_of(arguments).post(path, request, RolloutReport))


def _cancel(arguments: argparse.Namespace) -> int:
    request = CancelRequest(device=arguments.device, reason=arguments.reason)
    path = f"/v1/rollouts/{arguments.command}/cancel"
    report = agent_of(arguments).post(path, request, CancelReport, patience=_PATIENCE)
    if arguments.json:
        show_json(report)
    else:
        said = _ANSWERS[report.answer].format(report.state)
        print(f"{safe(report.command)} on {safe(report.device)}: {said}")
        if report.words:
            print(f"it says   {safe(report.words)}")
        if report.answer is not CancelAnswer.NOT_NEEDED:
            advise(f"edgeagent commands show {safe(report.command)}")
    return _EXITS.get(report.answer, 0)


def _show(arguments: argparse.Namespace, rollout: RolloutReport) -> int:
    if arguments.json:
        show_json(rollout)
        return 0
    print(f"{safe(rollout.command)} installs {safe(rollout.artifact)} {safe(rollout.version or '')}".rstrip())
    said = f", by {safe(rollout.by)}: {safe(rollout.why)}" if rollout.by else ""
    print(f"stands    {_stands(rollout)}{said}")
    never = f", {rollout.never} never begun" if rollout.never else ""
    print(f"devices   {rollout.succeeded} done, {rollout.bad} bad, {rollout.under_way} under way{never}")
    waits = "" if rollout.waits is None else f" ({rollout.waits}: {rollout.waits.sentence})"
    print(f"left      {rollout.left}{waits}")
    table(
        ("device", "stands", "update", "runs", "why"),
        [(each.device, each.state, _stage(each), each.runs or "-", each.meaning) for each in rollout.devices],
    )
    return 0


def _stands(rollout: RolloutReport) -> str:
    """Whether it goes on; what was said of it last means nothing once it is over."""
    return rollout.course if rollout.left or rollout.under_way else "over"


def _stage(device: RolloutDevice) -> str:
    """How far its update is."""
    update = device.update
    if update is None:
        return "-"
    return str(update.stage) if update.percent is None else f"{update.stage} {update.percent} %"
