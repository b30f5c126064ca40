"""``edgeagent setup`` and ``edgeagent setup check``: from a claim code to a hub that runs.

A conversation where somebody sits, and flags where nobody does. Whatever went wrong, the same words go on
where it was. Exit statuses are those of ``health``, over what ``setup check`` finds at the end.
"""

import argparse
import grp
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from edgeagent.cli.agreeing import agrees
from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.printing import is_coloured, level, safe, show_json
from edgeagent.cli.setup_asking import ask_for, claim_of
from edgeagent.cli.words import Nouns
from edgeagent.contracts.claim import Claim
from edgeagent.contracts.reports.health import Check, Level, worst
from edgeagent.contracts.reports.setup import Came, SetupReport, SetupStep
from edgeagent.errors import ConfigurationError
from edgeagent.ports.links import LinkError

if TYPE_CHECKING:
    from edgeagent.clock import ProvenClock
    from edgeagent.config import Config
    from edgeagent.setup.configuration import Choices
    from edgeagent.setup.places import Places
    from edgeagent.setup.services import Services
    from edgeagent.setup.steps import Setup

_TYPED: Final = "edgeagent setup --claim CODE --broker guest --yes"
_CAME: Final = {Came.DONE: "done", Came.KEPT: "kept", Came.WOULD: "would", Came.LEFT: "next"}
_WORKER: Final = "edgeagent-worker"


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    setup = nouns.add_parser(
        "setup",
        help="make this machine a hub, by a claim code; setup check: what is missing",
        description="Make this machine a hub by a claim code: asked for where somebody sits, or by flags. "
        "It may be typed again at any time. `setup check` changes nothing. Exit 0 ok, 1 warning, 2 critical.",
    )
    setup.add_argument("what", nargs="?", choices=("check",), help="only look at what is missing")
    setup.add_argument("--claim", metavar="CODE", help="the claim code, or - to read it from standard input")
    setup.add_argument("--broker", choices=("guest", "managed"), help="guest: changes nothing of mosquitto")
    setup.add_argument(
        "--broker-address", metavar="HOST:PORT", help="where a guest's broker is, if not at 127.0.0.1:1883"
    )
    setup.add_argument("--view-group", metavar="GROUP", help="who may look (edgeagent-view)")
    setup.add_argument("--operate-group", metavar="GROUP", help="who may do things (edgeagent-operate)")
    setup.add_argument("--proxy", metavar="URL", help="an HTTP proxy to go through")
    setup.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    setup.add_argument(
        "--replace-config", action="store_true", help="put the present one aside, write another"
    )
    setup.add_argument("--no-start", action="store_true", help="start no services")
    setup.add_argument("--yes", action="store_true", help="do not ask")
    where = setup.add_argument_group("where, if not where the package has it")
    where.add_argument(
        "--state-dir", type=Path, metavar="FOLDER", help="the agent's state (/var/lib/edgeagent)"
    )
    where.add_argument("--run-dir", type=Path, metavar="FOLDER", help="its sockets (/run/edgeagent)")
    where.add_argument("--user", default="edgeagent", help="whose the agent is (edgeagent)")
    setup.set_defaults(handler=_setup)


def _setup(arguments: argparse.Namespace) -> int:
    from edgeagent.setup.broker_step import refuse_in_vain

    if arguments.what == "check":
        checks = _checks(arguments)
        if arguments.json:
            show_json({"checks": [check.model_dump(mode="json") for check in checks]})
        else:
            _print_checks(checks, coloured=is_coloured(arguments.color))
        return (worst(checks) if checks else Level.OK).exit_status
    if sys.stdin.isatty():
        # Whoever may not do it is asked for nothing.
        _places(arguments, None)
    claim = claim_of(arguments, otherwise=_TYPED)
    if sys.stdin.isatty() and not arguments.yes:
        ask_for(arguments, groups=[entry.gr_name for entry in grp.getgrall()])
    setup = _wanted(arguments, claim)
    if not arguments.dry_run:
        refuse_in_vain(arguments.config, arguments.broker, is_new=arguments.replace_config)
    if not arguments.dry_run and not _is_agreed(arguments, setup):
        raise AdvisedError("nothing was done", _TYPED)
    return _run(arguments, setup)


def _run(arguments: argparse.Namespace, setup: "Setup") -> int:
    from edgeagent.setup.broker_step import left_undone
    from edgeagent.setup.checking import ADVICE

    steps: list[SetupStep] = []
    try:
        for step in setup.run(is_dry=arguments.dry_run):
            steps.append(step)
            if not arguments.json:
                _print_step(step)
    except LinkError as why:
        raise AdvisedError(
            f"{why}; what was done stays, and the same words go on from here", ADVICE[why.trouble]
        ) from why
    checks = [] if arguments.dry_run else [*left_undone(steps), *_checks(arguments)]
    if arguments.json:
        show_json(SetupReport(hub=setup.claiming.claim.facts.hub, steps=steps, checks=checks))
    else:
        _print_checks(
            [each for each in checks if each.level is not Level.OK], coloured=is_coloured(arguments.color)
        )
    return (worst(checks) if checks else Level.OK).exit_status


def _wanted(arguments: argparse.Namespace, claim: Claim) -> "Setup":
    """What is to be done, as far as it is typed; the rest is asked for or taken as it mostly is."""
    from edgeagent.setup.broker_step import see_to_broker
    from edgeagent.setup.claiming import Claiming
    from edgeagent.setup.configuration import kept_configuration
    from edgeagent.setup.steps import Setup

    services = None if arguments.no_start else _services()
    kept = None if arguments.replace_config else kept_configuration(arguments.config)
    proxy = _proxy(arguments.proxy)
    if proxy is None and kept is not None and kept.cloud is not None:
        proxy = kept.cloud.proxy
    return Setup(
        claiming=Claiming(claim, _places(arguments, kept), _clock(), proxy),
        choices=_choices(arguments, services),
        broker=lambda is_dry: see_to_broker(
            arguments.config, arguments.broker, is_dry=is_dry, is_new=arguments.replace_config
        ),
        services=services,
        is_replacing=arguments.replace_config,
    )


def _places(arguments: argparse.Namespace, kept: "Config | None") -> "Places":
    """Where everything is to lie: as it is typed, or as a configuration that is kept says."""
    from edgeagent.setup.places import RUN_DIR, STATE_DIR, places

    state_dir, run_dir = (STATE_DIR, RUN_DIR) if kept is None else (kept.hub.state_dir, kept.hub.run_dir)
    return places(
        arguments.config,
        state_dir=arguments.state_dir or state_dir,
        run_dir=arguments.run_dir or run_dir,
        user=arguments.user,
    )


def _choices(arguments: argparse.Namespace, services: "Services | None") -> "Choices":
    from edgeagent.setup.broker.wish import config_lines
    from edgeagent.setup.configuration import Choices
    from edgeagent.setup.services import FETCHER, WORKER

    units = () if services is None else services.units
    return Choices(
        broker=config_lines() if arguments.broker == "managed" else _broker_lines(arguments.broker_address),
        view_group=_group("--view-group", arguments.view_group, "edgeagent-view"),
        operate_group=_group("--operate-group", arguments.operate_group, "edgeagent-operate"),
        worker=_WORKER if WORKER in units else None,
        is_fetched_outside=FETCHER in units,
        proxy=arguments.proxy,
    )


def _broker_lines(address: str | None) -> str:
    """The lines that say where a guest's broker is; none where it usually is."""
    if address is None:
        return ""
    try:
        place = urlsplit(f"//{address}")
        host, port = place.hostname, place.port
    except ValueError:
        host, port = None, None
    if not host or port is None or re.fullmatch(r"[A-Za-z0-9.:-]+", host) is None:
        raise ConfigurationError("--broker-address: not HOST:PORT, like 192.168.1.10:1883")
    return f'[broker]\nhost = "{host}"\nport = {port}\n'


def _proxy(address: str | None) -> str | None:
    if address is not None and re.fullmatch(r"https?://[^/\s@]+/?", address) is None:
        raise ConfigurationError("--proxy: not an address like http://proxy.lan:3128")
    return address


def _group(flag: str, typed: str | None, usual: str) -> str | None:
    """A group of this machine: the one that was typed, or the package's where there is one."""
    known = {entry.gr_name for entry in grp.getgrall()}
    if typed is not None and typed not in known:
        raise ConfigurationError(f"{flag}: there is no group {typed} on this machine: groupadd {typed}")
    return typed or (usual if usual in known else None)


def _services() -> "Services | None":
    from edgeagent.setup.services import AGENT, Services, has_systemd, known_units

    units = known_units()
    return Services(tuple(sorted(units))) if has_systemd() and AGENT in units else None


def _checks(arguments: argparse.Namespace) -> list[Check]:
    from edgeagent.setup.checking import SetupCheck

    services = None if arguments.no_start else _services()
    return SetupCheck(config=arguments.config, clock=_clock(), services=services).checks()


def _is_agreed(arguments: argparse.Namespace, setup: "Setup") -> bool:
    facts = setup.claiming.claim.facts
    print(
        f"hub       {safe(facts.hub)} ({safe(facts.zone)})\n"
        f"cloud     {facts.cloud}, authority sha256 {facts.authority[:16]}...\n"
        f"policy    {facts.policy}, root sha256 {facts.root[:16]}...\n"
        f"code      good until {facts.until:%Y-%m-%d %H:%M} UTC",
        file=sys.stderr,
    )
    return arguments.yes or agrees("Make this machine that hub?", _TYPED)


def _clock() -> "ProvenClock":
    from edgeagent.clock import ProvenClock, SystemTime

    return ProvenClock(SystemTime())


def _print_step(step: SetupStep) -> None:
    first, *further = step.words.splitlines()
    print(f"{_CAME[step.came]:<9} {step.name}: {safe(first)}", flush=True)
    for line in further:
        print(f"{'':9} {safe(line)}")


def _print_checks(checks: Iterable[Check], *, coloured: bool) -> None:
    for check in checks:
        first, *further = check.summary.splitlines() or [""]
        print(f"{level(check.level, coloured=coloured)} {check.name.ljust(14)} {safe(first)}")
        for line in further:
            print(f"{'':23} {safe(line)}")
        if check.advice:
            print(f"{'':23} next: {safe(check.advice)}")
