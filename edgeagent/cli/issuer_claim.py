"""``edgeagent issuer claim new | list | revoke`` and ``edgeagent issuer hub revoke``: who becomes a hub."""

import argparse
from datetime import timedelta
from pathlib import Path

from pydantic import JsonValue

from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.issuer_asking import add_login, client_of, clock, finished
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.errors import ConfigurationError
from edgeagent.ids import hub_id


def add_claim(verbs: Nouns) -> None:
    """Add the words for claim codes."""
    words = verbs.add_parser("claim", help="codes that hubs are set up with").add_subparsers(
        required=True, metavar="VERB"
    )
    new = words.add_parser(
        "new",
        help="make a code for a hub; it works once",
        description="Make a code for a hub and print it, alone, on standard output. It pins the authority of "
        "--ca-file and the policy's root of --root; an earlier code for this hub is good no more.",
    )
    new.add_argument("hub", type=hub_id, metavar="HUB")
    new.add_argument("--zone", required=True, metavar="ZONE", help="the venue's time zone: Europe/Berlin")
    new.add_argument("--root", type=Path, required=True, metavar="1.root.json", help="the policy's first")
    new.add_argument("--policy-source", metavar="URL", help="where the policy is, if not at the queue")
    new.add_argument("--address", metavar="URL", help="what hubs call the queue, if not as --queue does")
    new.add_argument(
        "--valid", type=length_of_time, default=timedelta(days=1), metavar="24h", help="how long it is good"
    )
    new.set_defaults(handler=_new)
    listed = words.add_parser("list", help="codes that wait, and what became of the others")
    listed.set_defaults(handler=_list)
    revoke = words.add_parser("revoke", help="take back the code that waits for a hub")
    revoke.add_argument("hub", type=hub_id, metavar="HUB")
    revoke.set_defaults(handler=_revoke)
    for word in (new, listed, revoke):
        add_login(word, required=True)


def add_hub_revoke(words: Nouns) -> None:
    """Add the word that shuts a hub out."""
    revoke = words.add_parser("revoke", help="let no certificate of this hub in any more")
    revoke.add_argument("hub", type=hub_id, metavar="HUB")
    add_login(revoke, required=True)
    revoke.set_defaults(handler=_revoke_hub)


def _new(arguments: argparse.Namespace) -> int:
    from edgeagent.contracts.claim import claim_text
    from edgeagent.issuer.claims import new_claim

    if arguments.ca_file is None:
        raise ConfigurationError("name the authority's root certificate: --ca-file ca/root.pem")
    claim = new_claim(
        arguments.hub,
        cloud=arguments.address or arguments.queue,
        policy=arguments.policy_source,
        zone=arguments.zone,
        pins=(arguments.ca_file, arguments.root),
        until=clock().wall().best + arguments.valid,
    )

    async def tell() -> None:
        async with client_of(arguments) as client:
            await client.claim(claim)

    finished(tell())
    text = claim_text(claim)
    if arguments.json:
        show_json({"claim": text, "hub": claim.facts.hub, "until": timestamp_text(claim.facts.until)})
    else:
        print(text)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    async def ask() -> list[tuple[str, ...]]:
        async with client_of(arguments) as client:
            return [
                (
                    one.hub,
                    one.state,
                    f"{one.made:%Y-%m-%d %H:%M}",
                    one.by,
                    f"{one.until:%Y-%m-%d %H:%M}",
                    one.serial or "-",
                )
                for one in await client.claims()
            ]

    rows = finished(ask())
    head = ("hub", "state", "made", "by", "until", "serial")
    if arguments.json:
        claims: list[JsonValue] = [dict(zip(head, row, strict=True)) for row in rows]
        show_json({"claims": claims})
    else:
        table(head, rows)
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    async def revoke() -> int:
        async with client_of(arguments) as client:
            return await client.revoke_claim(arguments.hub)

    return _tell(arguments, finished(revoke()), "no code waits for")


def _revoke_hub(arguments: argparse.Namespace) -> int:
    async def revoke() -> int:
        async with client_of(arguments) as client:
            return await client.revoke(arguments.hub)

    return _tell(arguments, finished(revoke()), "no certificate counts of")


def _tell(arguments: argparse.Namespace, count: int, none: str) -> int:
    if arguments.json:
        show_json({"hub": arguments.hub, "revoked": count})
    else:
        print(f"taken back: {count}" if count else f"{none} {safe(arguments.hub)}")
    return 0
