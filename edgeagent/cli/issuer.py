"""``edgeagent issuer``: the signing side and the reference queue server.

    init | refresh | repository check       the folder that hubs get their policy from
    keys new | show | rotate | revoke       what signs
    policy sample | sign | publish          who may do what
    artifact role | add | release | revoke  files for devices
    command sign | approve | resign         what is to happen
    command send | watch                    and what became of it
    order sign                              to stop a kind of command, or to resume it
    hub show | prove | prove-check          what a hub has told, and what can be proved of a command
    token new | serve | refusals            the reference queue server
    ca init | server | rotate | show        who certifies hubs, and the queue itself
    claim new | list | revoke               codes that hubs are set up with
    hub revoke                              a hub that is lost

It is for the machine of whoever operates hubs, not for a hub; what it needs is imported where it is used.
"""

from edgeagent.cli.issuer_artifact import add_artifact
from edgeagent.cli.issuer_ca import add_ca
from edgeagent.cli.issuer_claim import add_claim
from edgeagent.cli.issuer_command import add_command
from edgeagent.cli.issuer_evidence import add_evidence
from edgeagent.cli.issuer_keys import add_keys
from edgeagent.cli.issuer_order import add_order
from edgeagent.cli.issuer_policy import add_policy
from edgeagent.cli.issuer_queue import add_queue
from edgeagent.cli.issuer_repository import add_repository
from edgeagent.cli.issuer_serve import add_serve
from edgeagent.cli.words import Nouns


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    issuer = nouns.add_parser("issuer", help="the signing side, and the reference queue server")
    verbs = issuer.add_subparsers(required=True, metavar="VERB")
    add_repository(verbs)
    add_keys(verbs)
    add_policy(verbs)
    add_artifact(verbs)
    add_command(verbs)
    add_order(verbs)
    add_queue(verbs)
    add_evidence(verbs)
    add_serve(verbs)
    add_ca(verbs)
    add_claim(verbs)
