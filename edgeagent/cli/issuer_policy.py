"""``edgeagent issuer policy``: who may do what, written in TOML, signed for hubs."""

import argparse
from pathlib import Path

from edgeagent.cli.issuer_asking import add_signing, clock, signers_of
from edgeagent.cli.issuer_repository import add_folder, expiries, folder_of, publisher_of, show_expiries
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.errors import ConfigurationError


def add_policy(verbs: Nouns) -> None:
    """Add the words for policies."""
    policy = verbs.add_parser("policy", help="who may do what").add_subparsers(required=True, metavar="VERB")
    sign = policy.add_parser("sign", help="sign a policy that is written in TOML")
    sign.add_argument("file", type=Path, metavar="POLICY.toml")
    add_signing(sign)
    sign.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the signed policy goes")
    sign.set_defaults(handler=_sign_policy)
    publish = policy.add_parser("publish", help="put a policy in force; its version has to grow")
    publish.add_argument("file", type=Path, metavar="POLICY.toml")
    add_folder(publish)
    publish.set_defaults(handler=_publish)
    sample = policy.add_parser("sample", help="print a policy to begin with")
    sample.set_defaults(handler=_sample)


def _sign_policy(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.policies import load_policy, sign_policy

    policy = load_policy(arguments.file, now=clock().wall().best)
    envelope = sign_policy(policy, signers_of(arguments))
    try:
        arguments.out.write_bytes(envelope)
    except OSError as why:
        raise ConfigurationError(f"cannot write {arguments.out}: {why.strerror}") from why
    if arguments.json:
        until = timestamp_text(policy.expires_at)
        show_json({"version": policy.version, "until": until, "file": str(arguments.out)})
        return 0
    print(f"policy version {policy.version}, until {policy.expires_at:%Y-%m-%d}: {safe(str(arguments.out))}")
    return 0


def _publish(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.policies import load_policy

    policy = load_policy(arguments.file, now=clock().wall().best)
    folder = folder_of(arguments)
    with folder.alone():
        trusted = publisher_of(folder, arguments).publish(policy)
    if arguments.json:
        show_json(expiries(trusted))
    else:
        show_expiries(trusted)
    return 0


def _sample(arguments: argparse.Namespace) -> int:
    from importlib.resources import files

    sample = files("edgeagent.issuer.repository").joinpath("sample.toml").read_text("utf-8")
    if arguments.json:
        show_json({"policy": sample})
    else:
        print(sample, end="")
    return 0
