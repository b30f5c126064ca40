"""``edgeagent clock show | confirm | reset-floor``."""

import argparse
from datetime import datetime, timedelta
from typing import Final

from edgeagent.cli.agreeing import agrees
from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.asking import agent_of
from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.times import ago
from edgeagent.cli.words import Nouns
from edgeagent.clock import ClockSource
from edgeagent.contracts.reports.clock import ClockStanding, ConfirmRequest, ResetFloorRequest
from edgeagent.contracts.scalars import timestamp
from edgeagent.errors import MalformedError

_SAY_WHICH: Final = "name the time, or add --yes"


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    clock = nouns.add_parser("clock", help="what is known of the time, and saying what it is")
    verbs = clock.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("show", help="the time, what it rests on, and the floor").set_defaults(handler=_show)
    confirm = verbs.add_parser(
        "confirm",
        help="say what time it is",
        description="Say what time it is, where nothing else can. Without TIME the machine's own clock is "
        "shown and asked back. It is put on record with your name.",
    )
    confirm.add_argument("time", metavar="TIME", nargs="?", type=_moment, help="now, as 2027-01-02T03:04:05Z")
    confirm.add_argument(
        "--within", type=length_of_time, default=timedelta(minutes=1), help="how far it may be off (1m)"
    )
    confirm.add_argument("--yes", action="store_true", help="do not ask back")
    confirm.set_defaults(handler=_confirm)
    reset = verbs.add_parser(
        "reset-floor",
        help="set the floor of time back, after a clock was far ahead",
        description="Set the floor of time back, to TIME or as far as it goes. What rests on the old floor "
        "is forgotten; no command that has come before runs again. It is put on record with your name.",
    )
    reset.add_argument("time", metavar="TIME", nargs="?", type=_moment, help="as 2027-01-02T03:04:05Z")
    reset.add_argument("--yes", action="store_true", help="do not ask back")
    reset.set_defaults(handler=_reset_floor)


def _moment(text: str) -> datetime:
    try:
        return timestamp(text)
    except MalformedError as why:
        raise argparse.ArgumentTypeError(str(why)) from why


def _show(arguments: argparse.Namespace) -> int:
    return _tell(agent_of(arguments).get("/v1/clock", ClockStanding), arguments)


def _confirm(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    if arguments.time is None and not arguments.yes:
        kernel = agent.get("/v1/clock", ClockStanding).kernel
        told = f"this machine's clock says {_written(kernel)}"
        if not agrees(f"{told}. Is it right within {arguments.within}?", _SAY_WHICH):
            raise AdvisedError("nothing was changed", "edgeagent clock confirm TIME")
    request = ConfirmRequest(time=arguments.time, within=arguments.within)
    return _tell(agent.post("/v1/clock/confirm", request, ClockStanding), arguments)


def _reset_floor(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    if arguments.time is None and not arguments.yes:
        clock = agent.get("/v1/clock", ClockStanding)
        told = f"the floor is {_written(clock.floor)}, by {clock.floor_source}"
        question = "Set it back as far as it goes, and prove the time anew?"
        if not agrees(f"{told}. {question}", _SAY_WHICH):
            raise AdvisedError("nothing was changed", "edgeagent clock reset-floor TIME")
    request = ResetFloorRequest(time=arguments.time)
    return _tell(agent.post("/v1/clock/reset-floor", request, ClockStanding), arguments)


def _tell(clock: ClockStanding, arguments: argparse.Namespace) -> int:
    if arguments.json:
        show_json(clock)
        return 0
    if clock.source is ClockSource.NONE:
        print(f"time      not proven; the best guess is {_written(clock.best)}")
    else:
        print(f"time      {_written(clock.best)} within {clock.error or 0:.3f} s")
        print(f"source    {clock.source}, proven {ago(clock.proven)}")
    kernel = (
        "not synchronised"
        if clock.kernel_error is None
        else f"synchronised within {clock.kernel_error:.3f} s"
    )
    print(f"kernel    {_written(clock.kernel)}, {kernel}")
    print(f"floor     {_written(clock.floor)}, by {clock.floor_source}")
    print(f"boot      {safe(clock.boot_id)}, {ago(clock.boot)}")
    print(f"waiting   {clock.waiting} commands wait for the time")
    if clock.kernel_is_behind:
        print("the kernel's synchronised clock is behind the floor: one of them is wrong")
        print("  next: correct the clock, or, if it is right, edgeagent clock reset-floor")
    return 0


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
