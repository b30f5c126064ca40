"""``edgeagent config check | keys``."""

import argparse
from pathlib import Path

from pydantic import JsonValue

from edgeagent import config as configuration
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.config import Config
from edgeagent.config_keys import all_keys
from edgeagent.errors import ConfigurationError


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    config = nouns.add_parser("config", help="the configuration")
    verbs = config.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("check", help="find every mistake, with its line").set_defaults(handler=_check)
    verbs.add_parser("keys", help="every key with its default and meaning").set_defaults(handler=_keys)


def _check(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    problems = _problems(config, arguments.config)
    if problems:
        # One line each, as for the mistakes that are found while it is read.
        raise ConfigurationError("\n".join(problems))
    if arguments.json:
        show_json(config)
    else:
        print(f"{safe(str(arguments.config))} is in order")
    return 0


def _keys(arguments: argparse.Namespace) -> int:
    if arguments.json:
        keys: dict[str, JsonValue] = {
            name: {"default": default, "meaning": meaning} for name, default, meaning in all_keys()
        }
        show_json({"keys": keys})
        return 0
    print("| key | default | meaning |\n|---|---|---|")
    for name, default, meaning in all_keys():
        print(f"| `{name}` | {default} | {meaning} |")
    return 0


def _problems(config: Config, path: Path) -> list[str]:
    """What is wrong with what the configuration names: secrets, addresses, profiles."""
    from edgeagent import settings

    problems = []
    for read in (settings.mqtt_settings, settings.cloud_settings, settings.profiles, settings.pinned_root):
        try:
            read(config, path)
        except ConfigurationError as why:
            problems.append(str(why))
    try:
        settings.access(config)
    except ConfigurationError as why:
        problems.append(str(why))
    return problems
