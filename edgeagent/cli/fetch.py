"""``edgeagent fetch``: what is started to fetch for the agent, one errand each; the help is silent about it.

Its standard input is the socket that the agent speaks on: the child's end of a pair, or what a service
manager has accepted (``Accept=yes``, ``StandardInput=socket`` of systemd.socket(5)).
"""

import argparse
import socket
import sys

from edgeagent.cli.printing import complain
from edgeagent.cli.words import Nouns

_EXIT_WORDS = 2


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    fetch = nouns.add_parser("fetch")
    fetch.set_defaults(handler=_fetch)


def _fetch(_arguments: argparse.Namespace) -> int:
    from edgeagent.fetcher.serving import serve
    from edgeagent.rights import give_up_rights

    try:
        channel = socket.socket(fileno=sys.stdin.fileno())
    except (OSError, ValueError):
        channel = None
    if channel is None or (channel.family, channel.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
        complain("this is for the agent: its standard input has to be a Unix stream socket")
        return _EXIT_WORDS
    give_up_rights()
    return serve(channel)
