"""``edgeagent artifacts``: files for devices on this hub."""

from edgeagent.cli.artifact_catalogue import add_catalogue
from edgeagent.cli.artifact_fetching import add_fetching
from edgeagent.cli.words import Nouns


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    artifacts = nouns.add_parser("artifacts", help="files for devices")
    verbs = artifacts.add_subparsers(required=True, metavar="VERB")
    add_catalogue(verbs)
    add_fetching(verbs)
