"""``edgeagent config check``."""

import argparse

from edgeagent import config as configuration
from edgeagent.cli.printing import complain, show_json
from edgeagent.cli.words import Nouns
from edgeagent.config import Config
from edgeagent.errors import ConfigurationError


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    config = nouns.add_parser("config", help="the configuration")
    verbs = config.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("check", help="find every mistake, with its line").set_defaults(handler=_check)
    verbs.add_parser("keys", help="every key with its default and meaning").set_defaults(handler=_keys)


def _check(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    problems = [problem for problem in _secrets(config, arguments) if problem]
    for problem in problems:
        complain(problem)
    if arguments.json:
        show_json(config)
    elif not problems:
        print(f"{arguments.config} is in order")
    return 78 if problems else 0


def _keys(_arguments: argparse.Namespace) -> int:
    print("| key | default | meaning |\n|---|---|---|")
    for name, default, meaning in configuration.all_keys():
        print(f"| `{name}` | {default} | {meaning} |")
    return 0


def _secrets(config: Config, arguments: argparse.Namespace) -> list[str]:
    """What is wrong with the secrets that the configuration names."""
    names = [config.broker.password_file, config.cloud.token_file if config.cloud else None]
    problems = []
    for name in names:
        if name is None:
            continue
        try:
            configuration.read_secret(arguments.config, name)
        except ConfigurationError as why:
            problems.append(str(why))
    return problems
