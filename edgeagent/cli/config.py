"""``edgeagent config check | show | reload | keys``."""

import argparse
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent import config as configuration
from edgeagent.cli.asking import Agent, at_the_usual_place, readable
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.config import Config, Loaded
from edgeagent.config_keys import Key, all_keys, markdown, value_of
from edgeagent.contracts.reports.configuration import ConfigurationReport, ReloadRequest
from edgeagent.errors import ConfigurationError, RejectedError, TransientError

_PATIENCE: Final = 60.0


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    config = nouns.add_parser("config", help="the configuration")
    verbs = config.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("check", help="find every mistake, with its line").set_defaults(handler=_check)
    show = verbs.add_parser("show", help="what is in force for whoever starts now")
    show.add_argument("--origin", action="store_true", help="and where each value comes from")
    show.set_defaults(handler=_show)
    verbs.add_parser(
        "reload", help="have the running agent read it again; 78 if the file is not in order"
    ).set_defaults(handler=_reload)
    keys = verbs.add_parser("keys", help="every key with its default and meaning")
    keys.add_argument("--markdown", action="store_true", help="all there is to say of them, for a page")
    keys.set_defaults(handler=_keys)


def _check(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    found = problems(config, arguments.config)
    if found:
        # One line each, as for the mistakes that are found while it is read.
        raise ConfigurationError("\n".join(found))
    if arguments.json:
        show_json(config)
    else:
        print(f"{safe(str(arguments.config))} is in order")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    loaded = configuration.load_with_origins(arguments.config)
    keys = all_keys(Config)
    waiting = _needs_restart(loaded.config)
    if arguments.json:
        show_json({"keys": {key.name: _told(key, loaded) for key in keys}, "needs_restart": [*waiting]})
        return 0
    rows = [(key.name, _text(value_of(loaded.config, key)), loaded.origin(key)) for key in keys]
    width = 3 if arguments.origin else 2
    table(("key", "value", "from")[:width], [row[:width] for row in rows])
    if waiting:
        print(f"the running agent needs a restart for {', '.join(waiting)}")
    return 0


def _needs_restart(config: Config) -> list[str]:
    """The keys that the running agent has read and not taken; none where nobody runs or we may not ask."""
    try:
        return Agent(config.admin_socket).get("/v1/configuration", ConfigurationReport).needs_restart
    except (TransientError, RejectedError):
        return []


def _reload(arguments: argparse.Namespace) -> int:
    # What is in order here names the socket; the agent reads the file by itself.
    config = readable(arguments.config) or at_the_usual_place()
    agent = Agent(config.admin_socket, utc=arguments.utc)
    report = agent.post("/v1/configuration/reload", ReloadRequest(), ConfigurationReport, patience=_PATIENCE)
    if report.trouble:
        raise ConfigurationError(report.trouble)
    if arguments.json:
        show_json(report)
        return 0
    print(f"taken: {', '.join(report.taken) or 'nothing new'}")
    if report.needs_restart:
        print(f"needs a restart: {', '.join(report.needs_restart)}")
        print("  next: systemctl restart edgeagent")
    return 0


def _told(key: Key, loaded: Loaded) -> dict[str, JsonValue]:
    return {
        "value": value_of(loaded.config, key),
        "origin": loaded.origin(key),
        "at_reload": "taken" if key.is_live else "restart",
    }


def _text(value: JsonValue) -> str:
    return "-" if value is None else str(value)


def _keys(arguments: argparse.Namespace) -> int:
    if arguments.json:
        show_json({"keys": {key.name: _facts(key) for key in all_keys(Config)}})
    elif arguments.markdown:
        print(markdown(Config), end="")
    else:
        rows = [
            (key.name, "required" if key.is_required else key.default or "none", key.meaning)
            for key in all_keys(Config)
        ]
        table(("key", "default", "meaning"), rows)
    return 0


def _facts(key: Key) -> dict[str, JsonValue]:
    return {
        "type": key.kind,
        "required": key.is_required,
        "default": key.default or None,
        "allowed": key.allowed or None,
        "at_reload": "taken" if key.is_live else "restart",
        "example": key.line,
        "variable": key.variable,
        "meaning": key.meaning,
    }


def problems(config: Config, path: Path) -> list[str]:
    """What is wrong with what the configuration names: secrets, addresses, profiles; a line each."""
    from edgeagent import settings

    found = []
    for read in (
        settings.mqtt_settings,
        settings.cloud_settings,
        settings.profiles,
        settings.pinned_root,
        settings.named_files,
    ):
        try:
            read(config, path)
        except ConfigurationError as why:
            found += str(why).split("\n")
    for look in (settings.access, settings.worker_user):
        try:
            look(config)
        except ConfigurationError as why:
            found.append(str(why))
    return found
