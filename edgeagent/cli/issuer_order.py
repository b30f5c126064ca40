"""``edgeagent issuer order``: orders to a hub itself, to stop a kind of command or to resume it."""

import argparse
from datetime import timedelta

from edgeagent.cli.arguments import KINDS, kind_of, length_of_time
from edgeagent.cli.issuer_asking import add_login, add_signing, clock, epoch_of, signers_of
from edgeagent.cli.words import Nouns
from edgeagent.contracts.order import Verb
from edgeagent.ids import epoch as checked_epoch
from edgeagent.ids import hub_id


def add_order(verbs: Nouns) -> None:
    """Add the words that make orders."""
    orders = verbs.add_parser("order", help="orders to a hub itself").add_subparsers(
        required=True, metavar="VERB"
    )
    sign = orders.add_parser("sign", help="sign an order to stop or resume; prints its envelope")
    sign.add_argument("verb", choices=[str(verb) for verb in Verb])
    sign.add_argument("kind", metavar="KIND", help=KINDS)
    add_signing(sign)
    sign.add_argument("--hub", required=True, type=hub_id)
    sign.add_argument("--epoch", type=checked_epoch, help="the hub's epoch; the queue is asked if absent")
    sign.add_argument("--valid-for", type=length_of_time, default=timedelta(hours=1), help="1h")
    sign.add_argument("--reason", "--why", dest="why", default="", metavar="TEXT", help="for the record")
    add_login(sign, required=False)
    sign.set_defaults(handler=_sign_order)


def _sign_order(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.orders import Wish, sign_order

    wish = Wish(
        hub=arguments.hub,
        epoch=epoch_of(arguments),
        verb=Verb(arguments.verb),
        kind=kind_of(arguments.kind),
        why=arguments.why,
        valid_for=arguments.valid_for,
    )
    print(sign_order(wish, signers_of(arguments), clock()).envelope.decode())
    return 0
