"""``edgeagent fetch-artifact``: what the agent starts to fetch a file; the help is silent about it."""

import argparse
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.words import Nouns
from edgeagent.contracts.door import encode
from edgeagent.contracts.fetching import FetchLine
from edgeagent.contracts.scalars import duration
from edgeagent.ids import artifact_id, digest

if TYPE_CHECKING:
    from edgeagent.adapters.artifacts.errand import Bounds


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    fetch = nouns.add_parser("fetch-artifact")
    fetch.add_argument("--from", dest="place", required=True)
    fetch.add_argument("--artifact", type=artifact_id, required=True)
    fetch.add_argument("--target", required=True)
    fetch.add_argument("--sha256", type=digest, required=True)
    fetch.add_argument("--length", type=int, required=True)
    fetch.add_argument("--into", type=Path, required=True)
    fetch.add_argument("--ca-file", type=Path)
    for word in ("connect", "idle", "whole", "window"):
        fetch.add_argument(f"--{word}", type=duration)
    fetch.add_argument("--least-rate", type=int)
    fetch.add_argument("--reserve", type=int)
    fetch.set_defaults(handler=_fetch)


def _fetch(arguments: argparse.Namespace) -> int:
    from edgeagent.adapters.artifacts.errand import Errand
    from edgeagent.artifact_fetcher import Progress, fetch
    from edgeagent.ports.artifacts import SignedFile
    from edgeagent.rights import give_up_rights

    give_up_rights()
    file = SignedFile(
        artifact=arguments.artifact,
        sha256=arguments.sha256,
        length=arguments.length,
        path=arguments.target,
    )
    errand = Errand(
        place=arguments.place,
        file=file,
        tell=Progress(_say).tell,
        bounds=_bounds(arguments),
        ca_file=arguments.ca_file,
        # Everybody on the machine can read a command line; this the agent alone can.
        proxy=os.environ.get("https_proxy"),
    )
    return fetch(errand, arguments.into, _say)


def _bounds(arguments: argparse.Namespace) -> "Bounds":
    from edgeagent.adapters.artifacts.errand import Bounds

    usual = Bounds()

    def length(word: str, otherwise: timedelta) -> timedelta:
        given: timedelta | None = vars(arguments)[word]
        return otherwise if given is None else given

    return Bounds(
        connect=length("connect", usual.connect),
        idle=length("idle", usual.idle),
        whole=length("whole", usual.whole),
        window=length("window", usual.window),
        least_rate=usual.least_rate if arguments.least_rate is None else arguments.least_rate,
        reserve=usual.reserve if arguments.reserve is None else arguments.reserve,
    )


def _say(line: FetchLine) -> None:
    print(encode(line).decode(), flush=True)
