"""``edgeagent backup create | list | restore``."""

import argparse
import os
import shlex
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from edgeagent import config as configuration
from edgeagent.cli.agreeing import agrees
from edgeagent.cli.asking import Agent, agent_of, at_the_usual_place, readable
from edgeagent.cli.failing import AdvisedError, AgentDownError
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.times import Times
from edgeagent.cli.words import Nouns
from edgeagent.config import Config
from edgeagent.contracts.reports.backup import BackupReport, BackupRequest, BackupsReport
from edgeagent.errors import ConfigurationError

# Of a large database on a slow card, in seconds.
_PATIENCE: Final = 3600.0


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    backup = nouns.add_parser("backup", help="copies of the hub's state: make, list, put back")
    verbs = backup.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", help="one moment of the database, every page checked")
    create.add_argument("--to", type=Path, metavar="FOLDER", help="and copy it there, such as to a stick")
    create.add_argument("--without-keys", action="store_true", help="leave the hub's key and identity out")
    create.set_defaults(handler=_create)
    verbs.add_parser("list", help="which there are").set_defaults(handler=_list)
    restore = verbs.add_parser("restore", help="put one back; the agent has to be stopped")
    restore.add_argument("backup", metavar="BACKUP", help="its name, or the path of its folder")
    restore.add_argument("--yes", action="store_true", help="do not ask")
    restore.set_defaults(handler=_restore)


def _create(arguments: argparse.Namespace) -> int:
    agent, request = agent_of(arguments), BackupRequest(keys=not arguments.without_keys)
    if arguments.to is not None:
        _refuse_who_may_not_read(arguments)
    try:
        report = agent.post("/v1/backups", request, BackupReport, patience=_PATIENCE)
    except AgentDownError:
        config = readable(arguments.config)
        if config is None:
            raise
        _refuse_who_may_not_read(arguments)
        report = _alone(config, request)
    if arguments.to is not None:
        from edgeagent.store.backups import copy_out

        copied = copy_out(Path(report.path), arguments.to)
        report = report.model_copy(update={"path": str(copied)})
    if arguments.json:
        show_json(report)
    else:
        keys = "with the hub's keys: keep it as safe as them" if report.has_keys else "without keys"
        print(f"{report.bytes} bytes, whole, {keys}: {safe(report.path)}")
    return 0


def _refuse_who_may_not_read(arguments: argparse.Namespace) -> None:
    """Have nothing be made by who cannot copy it: the agent makes one for others than its own user too."""
    try:
        config = readable(arguments.config) or at_the_usual_place()
    except ConfigurationError:
        return  # the agent goes on with an earlier one; where its state is we do not know
    folder = config.hub.state_dir
    if os.path.lexists(folder) and not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
        to = [] if arguments.to is None else ["--to", str(arguments.to)]
        keys = ["--without-keys"] if arguments.without_keys else []
        raise AdvisedError(
            f"you may not read {folder}, where backups lie: nothing was made",
            shlex.join(["sudo", "edgeagent", "backup", "create", *to, *keys]),
        )


def _alone(config: Config, request: BackupRequest) -> BackupReport:
    """Make one while no agent runs."""
    from edgeagent.agent.restoring import back_up_alone
    from edgeagent.contracts.backup import Why
    from edgeagent.flows.backups import report_of
    from edgeagent.store.backups import Wish

    wish = Wish(
        why=Why.BY_HAND,
        made_at=datetime.now(UTC),
        version=version("edgeagent"),
        has_keys=request.keys,
    )
    return report_of(back_up_alone(config.hub.state_dir, wish, config.backup.keep))


def _list(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    try:
        report, times = agent.get("/v1/backups", BackupsReport), agent.times
    except AgentDownError:
        config = readable(arguments.config)
        if config is None:
            raise
        from edgeagent.flows.backups import report_all
        from edgeagent.store.backups import Backups

        report, times = report_all(Backups(config.hub.state_dir), config.backup.keep), Times(None)
    if arguments.json:
        show_json(report)
        return 0
    rows = [
        (
            each.name,
            "-" if each.made_at is None else times.since(each.made_at),
            each.version or "-",
            "-" if each.tables is None else str(each.tables),
            "-" if each.bytes is None else str(each.bytes),
            "yes" if each.has_keys else "no",
            each.problem or "whole",
        )
        for each in report.backups
    ]
    if not rows:
        print(f"there is no backup in {safe(report.folder)}")
        return 0
    table(("backup", "made", "version", "schema", "bytes", "keys", "state"), rows)
    print(f"in {safe(report.folder)}")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    from edgeagent.agent.restoring import restore
    from edgeagent.store.backups import Backups

    source = Backups(config.hub.state_dir).find(arguments.backup)
    typed = f"edgeagent backup restore {arguments.backup}"
    if _answers(config):
        raise AdvisedError("the agent is running", f"systemctl stop edgeagent, then {typed}")
    question = f"Put {source} in the place of what is in {config.hub.state_dir}?"
    if not arguments.yes and not agrees(question, f"{typed} --yes"):
        raise AdvisedError("nothing was changed", f"{typed} --yes")
    done = restore(config.hub.state_dir, config.hub.id, source, datetime.now(UTC))
    if arguments.json:
        kept = None if done.kept is None else str(done.kept)
        show_json(
            {"restored": str(source), "kept": kept, "keys": done.keys, "epoch_before": done.manifest.epoch}
        )
        return 0
    print(f"{safe(str(source))} is in place: start the agent again, it begins a new epoch")
    if done.kept is not None:
        print(f"what was there is kept: {safe(str(done.kept))}")
    print("  next: systemctl start edgeagent; edgeagent health")
    return 0


def _answers(config: Config) -> bool:
    from edgeagent.contracts.reports.status import StatusReport

    try:
        Agent(config.admin_socket).get("/v1/status", StatusReport)
    except AgentDownError:
        return False
    return True
