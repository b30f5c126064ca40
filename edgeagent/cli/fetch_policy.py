"""``edgeagent fetch-policy``: what the agent starts to fetch its policy; the help is silent about it."""

import argparse
from pathlib import Path

from edgeagent.cli.printing import complain
from edgeagent.cli.words import Nouns
from edgeagent.contracts.scalars import timestamp
from edgeagent.errors import TransientError


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    fetch = nouns.add_parser("fetch-policy")
    fetch.add_argument("--from", dest="place", required=True)
    fetch.add_argument("--into", type=Path, required=True)
    fetch.add_argument("--now", required=True)
    fetch.add_argument("--ca-file", type=Path)
    fetch.set_defaults(handler=_fetch)


def _fetch(arguments: argparse.Namespace) -> int:
    from edgeagent.fetcher import EXIT_LATER, Errand, fetch
    from edgeagent.rights import give_up_rights

    give_up_rights()
    errand = Errand(
        place=arguments.place, into=arguments.into, now=timestamp(arguments.now), ca_file=arguments.ca_file
    )
    try:
        fetch(errand)
    except TransientError as why:
        complain(str(why))
        return EXIT_LATER
    return 0
