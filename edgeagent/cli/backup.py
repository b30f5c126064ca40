"""``edgeagent backup FILE``."""

import argparse
from pathlib import Path
from typing import Final

from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.backup import BackupReport, BackupRequest

# Of a large database on a slow card, in seconds.
_PATIENCE: Final = 3600.0


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    backup = nouns.add_parser("backup", help="a checked copy of the database, made while the agent works")
    backup.add_argument(
        "file", type=Path, metavar="FILE", help="new; the agent's user has to be able to make it"
    )
    backup.set_defaults(handler=_back_up)


def _back_up(arguments: argparse.Namespace) -> int:
    request = BackupRequest(file=str(arguments.file.absolute()))
    report = agent_of(arguments).post("/v1/backups", request, BackupReport, patience=_PATIENCE)
    if arguments.json:
        show_json(report)
    else:
        print(f"{report.bytes} bytes, whole: {safe(report.file)}")
    return 0
