"""``edgeagent support-bundle``: what somebody who helps from afar needs, listed before it is written.

Everything is gathered and cleaned in memory first. Nothing is sent anywhere.
"""

import argparse
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Final

from edgeagent.cli.agreeing import agrees
from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.asking import at_the_usual_place
from edgeagent.cli.failing import AdvisedError
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.support_sources import HubSources
from edgeagent.cli.words import Nouns
from edgeagent.core.redacting import Redactor
from edgeagent.support.archive import Heading, manifest, packed, write
from edgeagent.support.known_secrets import known_secrets
from edgeagent.support.parts import Gathered, gather

_DAY: Final = timedelta(days=1)


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    bundle = nouns.add_parser(
        "support-bundle",
        help="a file for whoever helps from afar, without secrets; also while the agent is down",
        description="Gather what helps to find out what is wrong, take secrets out, list it, and write it.",
    )
    bundle.add_argument("--out", type=Path, metavar="FILE", help="a new file (edgeagent-support-....tar.gz)")
    bundle.add_argument("--since", type=length_of_time, default=_DAY, help="how much of the log (24h)")
    bundle.add_argument("--with-labels", action="store_true", help="with people's names for devices")
    bundle.add_argument("--yes", action="store_true", help="write it without asking")
    bundle.set_defaults(handler=_bundle)


def _bundle(arguments: argparse.Namespace) -> int:
    hub = HubSources(arguments.config)
    names = {} if arguments.with_labels else hub.labels()
    secrets = known_secrets(hub.config or at_the_usual_place(), arguments.config)
    gathered = gather(
        hub.sources(arguments.since, with_labels=arguments.with_labels), Redactor(secrets, names)
    )
    heading = Heading(
        hub="" if hub.config is None else hub.config.hub.id,
        version=version("edgeagent"),
        at=datetime.now(UTC).replace(microsecond=0),
        has_labels=None if names is None else arguments.with_labels,
    )
    content, file = packed(heading, gathered), arguments.out or Path(f"{heading.folder}.tar.gz")
    if not arguments.json:
        _list(heading, gathered, file, len(content))
    if not arguments.yes and not agrees("Write it?", "add --yes"):
        raise AdvisedError("nothing was written", "edgeagent support-bundle --yes")
    write(file, content)
    if arguments.json:
        show_json({"file": str(file), **manifest(heading, gathered)})
    else:
        print(safe(str(file)))
    return 0


def _list(heading: Heading, gathered: Gathered, file: Path, size: int) -> None:
    """Say what will be written; to standard error, since the answer is the file's name."""
    lines = [f"{file}, {_kibibytes(size)}, for its owner alone, would hold:"]
    for part in gathered.parts:
        notes = f"; {part.redacted} redacted" if part.redacted else ""
        notes += "; its beginning cut off" if part.is_cut else ""
        lines.append(f"  {part.name.ljust(14)} {_kibibytes(len(part.content)):>9}  {part.what}{notes}")
    lines += [f"  {each.name.ljust(14)} {'-':>9}  cannot be had: {each.why}" for each in gathered.missing]
    lines.append(f"In none of it: {'; '.join(heading.left_out)}.")
    lines += [f"Not known now, and so perhaps in it: {what}." for what in heading.not_looked_for]
    for line in lines:
        print(safe(line), file=sys.stderr)


def _kibibytes(size: int) -> str:
    return f"{-(-size // 1024)} KiB"
