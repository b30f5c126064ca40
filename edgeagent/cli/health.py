"""``edgeagent health`` and ``edgeagent status``."""

import argparse
from datetime import UTC, datetime

from edgeagent import config as configuration
from edgeagent.cli.asking import Agent, agent_of
from edgeagent.cli.failing import AgentDownError, AskingRefusedError
from edgeagent.cli.printing import is_coloured, level, safe, show_json, table
from edgeagent.cli.times import Times, ago
from edgeagent.cli.words import Nouns
from edgeagent.clock import SystemTime
from edgeagent.config import Config
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.errors import MalformedError, RejectedError

_REPORT_BYTES = 1024 * 1024


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    health = nouns.add_parser("health", help="what is wrong and what to do; exit 0 ok, 1 warning, 2 critical")
    health.set_defaults(handler=_health)
    status = nouns.add_parser("status", help="the hub at a glance")
    status.set_defaults(handler=_status)


def _health(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    try:
        report = Agent(config.admin_socket).get("/v1/health", HealthReport)
    except AgentDownError:
        report = _without_agent(config, utc=arguments.utc)
    except RejectedError as why:
        report = _unanswered(why)
    if arguments.json:
        show_json(report)
    else:
        _print_health(report, coloured=is_coloured(arguments.color))
    return report.level.exit_status


def _print_health(report: HealthReport, *, coloured: bool) -> None:
    wrong = [check for check in report.checks if check.level is not Level.OK]
    first = f"{wrong[0].name}: {wrong[0].summary}" if wrong else f"{len(report.checks)} checks"
    # One line that monitoring plugins can show.
    print(f"EDGEAGENT {report.level.upper()} - {safe(first)}")
    for check in report.checks:
        print(f"{level(check.level, coloured=coloured)} {check.name.ljust(18)} {safe(check.summary)}")
        if check.advice:
            print(f"{'':27} next: {safe(check.advice)}")


def _unanswered(why: RejectedError) -> HealthReport:
    """What can be said when the agent is there and does not tell us: nothing."""
    advice = why.advice if isinstance(why, AskingRefusedError) else "install the same version on both sides"
    check = Check(name="agent", level=Level.UNKNOWN, summary=str(why), advice=advice)
    return HealthReport(at=datetime.now(UTC), checks=[check])


def _without_agent(config: Config, *, utc: bool) -> HealthReport:
    """What can be said while the agent is down: that it is, and how it stood last."""
    checks = [
        Check(
            name="agent",
            level=Level.CRITICAL,
            summary=f"does not answer on {config.admin_socket}",
            advice="systemctl status edgeagent, or start it with edgeagent run; journalctl -u edgeagent",
        )
    ]
    try:
        last = decode(HealthReport, config.last_health.read_bytes(), limit=_REPORT_BYTES)
    except (OSError, MalformedError):
        return HealthReport(at=datetime.now(UTC), checks=checks)
    times = Times(None if utc else _present())
    for check in last.checks:
        summary = f"{check.summary} (as of {times.since(last.at)})"
        # What was fine then says nothing about now.
        standing = Level.UNKNOWN if check.level is Level.OK else check.level
        checks.append(Check(name=check.name, level=standing, summary=summary, advice=check.advice))
    return HealthReport(at=datetime.now(UTC), checks=checks)


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
    print(f"hub       {report.hub}, edgeagent {report.version}, started {ago(report.uptime)}")
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
