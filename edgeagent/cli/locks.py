"""``edgeagent locks list | release``: who works which device."""

import argparse

from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import safe, short_names, show_json, table
from edgeagent.cli.times import ago
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.locks import LockReport, LocksReport, ReleaseRequest
from edgeagent.ids import device_id


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    locks = nouns.add_parser("locks", help="the devices that are worked, and by whom")
    verbs = locks.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser(
        "list", help="who works which device, since when, and how long their lease holds"
    ).set_defaults(handler=_list)
    release = verbs.add_parser(
        "release",
        help="take a device from whoever works it",
        description="Take a device from whoever works it. Its command is worked anew: the device is read "
        "before anything is sent. It is put on record with your name and reason.",
    )
    release.add_argument("device", metavar="DEVICE", type=device_id)
    release.add_argument("--reason", required=True, metavar="TEXT", help="for the record")
    release.set_defaults(handler=_release)


def _list(arguments: argparse.Namespace) -> int:
    report = agent_of(arguments).get("/v1/locks", LocksReport)
    if arguments.json:
        show_json(report)
    elif report.locks:
        names = short_names((lock.command for lock in report.locks), wide=arguments.wide)
        table(
            ("device", "action", "command", "holder", "since", "lease left", "occupies"),
            [_row(lock, names[lock.command]) for lock in report.locks],
        )
    else:
        print("no device is worked")
    return 0


def _row(lock: LockReport, command: str) -> tuple[str, ...]:
    since, left = ago(lock.held), f"{lock.left:.0f} s"
    return (lock.device, lock.action, command, lock.holder, since, left, lock.parent or "-")


def _release(arguments: argparse.Namespace) -> int:
    request = ReleaseRequest(reason=arguments.reason)
    was = agent_of(arguments).post(f"/v1/locks/{arguments.device}/release", request, LockReport)
    if arguments.json:
        show_json(was)
        return 0
    print(f"{safe(was.device)} is taken from {safe(was.holder)}, who had it since {ago(was.held)}")
    print(f"  next: edgeagent commands show {safe(was.command)}")
    return 0
