"""``edgeagent broker check | plan | apply | logins``."""

import argparse
from datetime import timedelta
from typing import Final

from edgeagent.cli.checks import print_checks
from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.parameters import parameter
from edgeagent.cli.printing import is_coloured, safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.broker import (
    BrokerAppliedReport,
    BrokerPlanReport,
    LoginReport,
    LoginsReport,
)
from edgeagent.ids import device_id

_GUEST: Final = "the agent is a guest at its broker: there is nothing of ours"
_EXIT_OBSTACLES: Final = 1
_SHUTS_OUT: Final = frozenset({"allow_anonymous", "password_file", "acl_file"})
"""Lines of mosquitto's configuration that let fewer in than before."""


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    broker = nouns.add_parser("broker", help="the hub's MQTT broker: look at it, or configure it")
    verbs = broker.add_subparsers(required=True, metavar="VERB")
    check = verbs.add_parser(
        "check",
        help="what the agent needs of a broker and finds; changes nothing",
        description="Look at a broker; changes nothing of it. Exit 0 ok, 1 warning, 2 critical, 3 unknown.",
    )
    check.add_argument(
        "url", nargs="?", metavar="URL", help="like mqtt://192.168.1.10:1883; without it, the configured one"
    )
    check.add_argument("--listen", type=int, default=2, metavar="SECONDS", help="how long to listen (2)")
    check.set_defaults(handler=_check)
    plan = verbs.add_parser("plan", help="what apply would write, as a difference; nothing is done")
    plan.set_defaults(handler=_plan)
    apply = verbs.add_parser(
        "apply", help="try our configuration with mosquitto, put it in force, or leave all as it was"
    )
    apply.add_argument("--restart", action="store_true", help="start mosquitto anew where that is needed")
    apply.set_defaults(handler=_apply)
    _add_logins(verbs)


def _add_logins(verbs: Nouns) -> None:
    logins = verbs.add_parser("logins", help="the logins of devices").add_subparsers(
        required=True, metavar="VERB"
    )
    logins.add_parser("list", help="which there are, and whose").set_defaults(handler=_list)
    add = logins.add_parser(
        "add", help="make one, put it in force, and say its password once; also before its device is admitted"
    )
    add.add_argument("device", metavar="DEVICE", help="its id; for a bridge, a name for it")
    add.add_argument("--profile", help="its family's profile, if it is not admitted yet")
    add.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the profile"
    )
    add.set_defaults(handler=_add)
    for word, help_, handler in (
        ("rotate", "give one another password, and say it once", _rotate),
        ("remove", "take one away: its device is let in no more", _remove),
    ):
        verb = logins.add_parser(word, help=help_)
        verb.add_argument("login", metavar="LOGIN")
        verb.set_defaults(handler=handler)


def _check(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.looking import look_at_broker

    listening = timedelta(seconds=max(1, min(arguments.listen, 3600)))
    report = look_at_broker(arguments.config, arguments.url, listening=listening)
    if arguments.json:
        show_json(report)
        return report.level.exit_status
    print_checks("BROKER", report.level, report.checks, coloured=is_coloured(arguments.color))
    lines = [line for check in report.checks for line in check.lines]
    if lines:
        print("\nlines to add to the broker's configuration:")
        for line in dict.fromkeys(lines):
            print(f"  {safe(line)}")
        if any(line.split()[0] in _SHUTS_OUT for line in lines):
            print("with these, whoever has no login is shut out, other programs too; and mosquitto does not")
            print("start while a file that they name is missing. Make logins and rules first.")
    print(f"\nnot promised at {safe(report.broker)}:")
    for sentence in report.cannot:
        print(f"  {safe(sentence)}")
    return report.level.exit_status


def _plan(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.planning import plan_broker

    plan = plan_broker(arguments.config)
    report = _no_plan() if plan is None else plan.report()
    if arguments.json:
        show_json(report)
    else:
        _print_plan(report)
    return _EXIT_OBSTACLES if report.obstacles else 0


def _no_plan() -> BrokerPlanReport:
    return BrokerPlanReport(differences={}, restart=False, reload=False, obstacles=[], notes=[_GUEST])


def _print_plan(report: BrokerPlanReport) -> None:
    for difference in report.differences.values():
        for line in difference.splitlines():
            print(safe(line))
    for sentence in report.obstacles:
        print(f"in the way: {safe(sentence)}")
    for sentence in report.notes:
        print(f"note: {safe(sentence)}")
    if not report.differences:
        print("nothing would change")
    elif not report.obstacles:
        print(f"next: edgeagent broker apply{' --restart' if report.restart else ''}")


def _apply(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.applying import apply_plan
    from edgeagent.setup.broker.planning import plan_broker
    from edgeagent.setup.broker.service import SystemdService

    plan = plan_broker(arguments.config)
    if plan is None:
        done = BrokerAppliedReport(written=[], removed=[], done="nothing", notes=[_GUEST])
    else:
        done = apply_plan(plan, SystemdService(), restart=arguments.restart)
    if arguments.json:
        show_json(done)
        return 0
    for verb, names in (("written", done.written), ("removed", done.removed)):
        for name in names:
            print(f"{verb} {safe(name)}")
    if done.done != "nothing":
        print(f"mosquitto is {done.done}")
    elif not done.written and not done.removed:
        print("nothing has changed")
    for sentence in done.notes:
        print(f"note: {safe(sentence)}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.login_desk import all_logins

    report = LoginsReport(logins=all_logins(arguments.config))
    if arguments.json:
        show_json(report)
        return 0
    if not report.logins:
        print("no device has a login")
        return 0
    table(
        ("login", "family", "devices"),
        [(login.login, login.family, " ".join(login.devices) or "none yet") for login in report.logins],
    )
    return 0


def _add(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.login_desk import add_login
    from edgeagent.setup.broker.service import SystemdService

    given = dict(parameter(text) for text in arguments.set)
    made = add_login(
        arguments.config, SystemdService(), device_id(arguments.device), arguments.profile, given
    )
    return _tell(made, as_json=arguments.json)


def _rotate(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.login_desk import rotate_login
    from edgeagent.setup.broker.service import SystemdService

    return _tell(rotate_login(arguments.config, SystemdService(), arguments.login), as_json=arguments.json)


def _remove(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker.login_desk import remove_login
    from edgeagent.setup.broker.service import SystemdService

    gone = remove_login(arguments.config, SystemdService(), arguments.login)
    if arguments.json:
        show_json(gone)
    else:
        print(f"{safe(gone.login)} is let in no more")
    return 0


def _tell(login: LoginReport, *, as_json: bool) -> int:
    if login.password is None:
        raise AdvisedError(f"{login.login} has a password already", "edgeagent broker logins rotate LOGIN")
    if as_json:
        show_json(login)
        return 0
    print(f"login     {safe(login.login)}")
    print(f"password  {safe(login.password)}")
    print("It is told this once. Type both into the device's MQTT settings; docs/connecting.md says where.")
    return 0
