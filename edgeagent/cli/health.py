"""``edgeagent health`` and ``edgeagent status``."""

import argparse
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from edgeagent.cli.asking import Agent, agent_of, at_the_usual_place, left_of, readable
from edgeagent.cli.checks import print_checks
from edgeagent.cli.failing import AgentDownError, AskingRefusedError
from edgeagent.cli.printing import is_coloured, safe, show_json, table
from edgeagent.cli.times import Times, ago
from edgeagent.cli.words import Nouns
from edgeagent.clock import SystemTime
from edgeagent.config import Config
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import Check, HealthReport, Level, worst_first
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.errors import ConfigurationError, MalformedError, RejectedError

_REPORT_BYTES = 1024 * 1024
_RIGHTS = "sudo edgeagent health, or be in the group that is [hub] view_group"


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    health = nouns.add_parser("health", help="what is wrong and what to do; exit 0 ok, 1 warning, 2 critical")
    health.set_defaults(handler=_health)
    status = nouns.add_parser("status", help="the hub at a glance")
    status.set_defaults(handler=_status)


def _health(arguments: argparse.Namespace) -> int:
    report = report_at(arguments.config, utc=arguments.utc)
    if arguments.json:
        show_json(report)
    else:
        print_checks("EDGEAGENT", report.level, report.checks, coloured=is_coloured(arguments.color))
    return report.level.exit_status


def report_at(path: Path, *, utc: bool) -> HealthReport:
    """How the hub stands, by the agent or, as far as that can be said, without it.

    Args:
        path: where the configuration stands.
        utc: whether moments are told as they are.
    """
    try:
        return _report_of(readable(path), path, utc=utc)
    except ConfigurationError as why:
        # A monitoring plugin has to be told too, and the agent may go on with what it read before.
        return _misconfigured(why, path, utc=utc)


def _report_of(config: Config | None, path: Path, *, utc: bool) -> HealthReport:
    """The same with a configuration that is right, or None where we may not read it."""
    known = config or at_the_usual_place()
    try:
        return Agent(known.admin_socket).get("/v1/health", HealthReport)
    except AgentDownError as why:
        return _unread(why, known, utc=utc) if config is None else _without_agent(config, path, utc=utc)
    except RejectedError as why:
        return _unanswered(why, known, utc=utc)


def _misconfigured(why: ConfigurationError, path: Path, *, utc: bool) -> HealthReport:
    """What can be said with a configuration that is wrong or not there."""
    from edgeagent.cli.health_alone import looked_at_machine, wrong_configuration

    wrong = wrong_configuration(why, path)
    if (left := left_of(path)) is None:
        # Where such an agent has its socket is not known.
        return HealthReport(at=datetime.now(UTC), checks=[wrong])
    try:
        told = Agent(left.admin_socket).get("/v1/health", HealthReport).checks
    except AgentDownError:
        seen = [wrong, *looked_at_machine()]
        told = [*seen[1:], *_last(left, {check.name for check in seen}, utc=utc)]
    except RejectedError as refused:
        told = _unanswered(refused, left, utc=utc).checks
    checks = [wrong, *(check for check in told if check.name != wrong.name)]
    return HealthReport(at=datetime.now(UTC), checks=worst_first(checks))


def _unanswered(why: RejectedError, config: Config, *, utc: bool) -> HealthReport:
    """What can be said when the agent is there and does not tell us: how it stood a minute ago, if we may."""
    advice = "install the same version on both sides"
    if isinstance(why, AskingRefusedError):
        advice = why.advice or _RIGHTS
    check = Check(name="agent", level=Level.UNKNOWN, summary=str(why), advice=advice)
    return HealthReport(at=datetime.now(UTC), checks=worst_first([check, *_last(config, {"agent"}, utc=utc)]))


def _unread(why: AgentDownError, usual: Config, *, utc: bool) -> HealthReport:
    """What whoever may not read the configuration can be told: the machine, and how the rest stood last."""
    from edgeagent.cli.health_alone import looked_at_machine

    check = Check(
        name="agent",
        level=Level.UNKNOWN,
        summary=f"{why}, and the configuration cannot be read",
        advice="sudo edgeagent health, which looks at more; systemctl status edgeagent",
    )
    seen = [check, *looked_at_machine()]
    # At the usual place.
    seen += _last(usual, {each.name for each in seen}, utc=utc)
    return HealthReport(at=datetime.now(UTC), checks=worst_first(seen))


def _without_agent(config: Config, path: Path, *, utc: bool) -> HealthReport:
    """What can be said while the agent is down: what is seen without it, and how the rest stood last."""
    from edgeagent.cli.health_alone import looked_alone

    down = Check(
        name="agent",
        level=Level.CRITICAL,
        summary=f"does not answer on {config.admin_socket}",
        advice="systemctl status edgeagent, or start it with edgeagent run; journalctl -u edgeagent",
    )
    seen = [down, *looked_alone(config, path)]
    seen += _last(config, {check.name for check in seen}, utc=utc)
    # That there is no agent comes first: most of the rest may follow from it.
    return HealthReport(at=datetime.now(UTC), checks=worst_first(seen))


def _last(config: Config, known: Collection[str], *, utc: bool) -> list[Check]:
    """How everything else stood when the agent told last; nothing where that cannot be read."""
    try:
        last = decode(HealthReport, config.last_health.read_bytes(), limit=_REPORT_BYTES)
    except (OSError, MalformedError):
        return []
    times = Times(None if utc else _present())
    return [
        Check(
            name=check.name,
            # What was fine then says nothing about now.
            level=Level.UNKNOWN if check.level is Level.OK else check.level,
            summary=f"{check.summary} (as of {times.since(last.at)})",
            advice=check.advice,
        )
        for check in last.checks
        if check.name not in known
    ]


def _present() -> datetime | None:
    """The present by this machine's clock; None where the kernel does not stand by it."""
    time = SystemTime()
    return None if time.synchronised() is None else time.wall()


def _status(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    report = agent.get("/v1/status", StatusReport)
    if arguments.json:
        show_json(report)
        return 0
    error = "unknown" if report.clock.error is None else f"{report.clock.error:.3f} s"
    print(f"hub       {report.hub} ({report.zone}), edgeagent {report.version}, started {ago(report.uptime)}")
    print(f"epoch     {report.epoch}, incarnation {report.incarnation}")
    print(f"clock     {report.clock.best:%Y-%m-%d %H:%M:%S} UTC, error {error}, from {report.clock.source}")
    for session, link in report.broker.items():
        state = "connected" if link.connected else f"not connected: {safe(link.why)}"
        print(f"broker    {session}: {state}")
    print(f"cloud     {_cloud(report)}")
    policy = "none" if report.policy.version is None else f"version {report.policy.version}"
    print(f"policy    {policy}{' - ' + safe(report.policy.problem) if report.policy.problem else ''}")
    print(f"devices   {report.devices} admitted, {report.proposals} waiting for admission")
    table(
        ("stream", "waiting", "bytes", "oldest", "refused"),
        [
            (stream, str(depth.events), str(depth.bytes), agent.times.since(depth.oldest), str(depth.refused))
            for stream, depth in report.outbox.streams.items()
        ],
    )
    return 0


def _cloud(report: StatusReport) -> str:
    if not report.cloud.configured:
        return "not configured"
    if report.cloud.failing_for is not None:
        return f"failing for {report.cloud.failing_for:.0f} s: {safe(report.cloud.why)}"
    return f"last upload {ago(report.cloud.last_success)}"
