"""A copy of mosquitto's whole configuration, fit to be tried: ours as it is to be, that of others as it is.

It lies in a folder of its own with the files as they lie in theirs, since their order counts. Its listeners
are on free ports of this machine, its logins have a password of the moment, and it keeps nothing. It has no
bridges: to whom they lead it would be the same client, take its session over and its messages away.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from edgeagent.adapters.mqtt.broker_config import Option
from edgeagent.setup.broker.conflicts import others_options
from edgeagent.setup.broker.logins import Logins, passwords_text
from edgeagent.setup.broker.passwords import hashed, new_password
from edgeagent.setup.broker.place import BrokerPlace, make_open, user_of_broker
from edgeagent.setup.broker.planning import BrokerPlan
from edgeagent.setup.broker.wish import Wish
from edgeagent.setup.broker.writing import configuration, device_listener
from edgeagent.values import dataclass

LOOPBACK: Final = "127.0.0.1"
_NOT_HERE: Final = frozenset(
    {"bind_address", "bind_interface", "log_dest", "log_type", "persistence_location", "pid_file", "user"}
)
# mosquitto.conf(5), "Configuring bridges"; their earlier names too.
_OF_A_BRIDGE: Final = frozenset(
    {
        *("address", "addresses", "cleansession", "clientid", "connection", "idle_timeout"),
        *("keepalive_interval", "password", "restart_timeout", "round_robin", "start_type", "threshold"),
        *("topic", "try_private", "username"),
    }
)
_BEGINS_OF_A_BRIDGE: Final = ("bridge_", "local_", "notification", "remote_")
_OF_A_LISTENER: Final = ("listener", "use_username", "certfile", "keyfile", "tls_", "persistence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Such a copy.

    Attributes:
        wish: as it is there: another place and password; ports as of the last ``laid_out``.
        place: of what it is a copy.
        others: what others have written, in the order in which mosquitto takes it.
        lines: ours but for its listeners.
    """

    wish: Wish
    place: BrokerPlace
    others: Sequence[Option]
    lines: Sequence[str]

    @property
    def main(self) -> Path:
        """What mosquitto is to be started with."""
        return self.wish.place.main

    def laid_out(self) -> "Candidate":
        """The same on ports that are free now."""
        there = self.wish.place
        agent, devices, guarded, *more = _free_ports(3 + len(self.others))
        wish = replace(self.wish, agent_port=agent, port=devices)
        listeners = [f"listener {agent} {LOOPBACK}", *device_listener(devices, LOOPBACK, None, None)]
        if wish.certificate is not None:
            # So that it reads the certificate; nobody comes that way.
            listeners += device_listener(guarded, LOOPBACK, wish.certificate, wish.key)
        files: dict[Path, list[str]] = {there.main: [], there.own: [*listeners, *self.lines]}
        for option, port in zip(self.others, more, strict=True):
            is_included = option.file.parent == self.place.includes
            file = there.includes / option.file.name if is_included else there.main
            files.setdefault(file, []).extend(self._copied(option, port))
        # That it is up is one of its informations.
        files[there.main] += ["log_dest stderr", "log_type all"]
        for file, lines in files.items():
            _write(file, "\n".join([*lines, ""]))
        return replace(self, wish=wish)

    def _copied(self, option: Option, port: int) -> Iterator[str]:
        """A line of somebody else's."""
        if option.name in {"listener", "port"}:
            yield f"listener {port} {LOOPBACK}"
        elif option.name == "include_dir":
            # What any other folder holds stands in the main file by now.
            if option.value.rstrip("/") == str(self.place.includes):
                yield f"include_dir {self.wish.place.includes}"
        elif option.name == "persistence":
            yield "persistence false"
        elif option.name not in _NOT_HERE and not _is_of_a_bridge(option):
            yield f"{option.name} {option.value}"


def candidate_of(plan: BrokerPlan, wanted: Wish, folder: Path, logins: Sequence[str]) -> Candidate:
    """Lay out passwords and rules; ``Candidate.laid_out`` does the rest.

    Args:
        plan: what is to be tried.
        wanted: its wish.
        folder: where; mosquitto's own user has to reach it.
        logins: whose that are to be tried have no password yet, or one that nobody knows.
    """
    others, password, there = others_options(plan.place) or [], new_password(), BrokerPlace(folder)
    for made in (folder, there.passwords.parent, there.includes):
        make_open(made)
    names = dict.fromkeys([*logins, *plan.logins.hashes, wanted.agent], hashed(password))
    _write(there.passwords, passwords_text(Logins({}, names)))
    _write(there.rules, plan.after[plan.place.rules] or "")
    wish = replace(wanted, place=there, password=password)
    own = configuration(wish, others).splitlines()
    lines = [line for line in own if not line.startswith(_OF_A_LISTENER)]
    return Candidate(wish=wish, place=plan.place, others=others, lines=lines)


def _is_of_a_bridge(option: Option) -> bool:
    return option.name in _OF_A_BRIDGE or option.name.startswith(_BEGINS_OF_A_BRIDGE)


def _write(path: Path, text: str) -> None:
    path.touch(0o600)
    # Started by root, mosquitto reads some of them as a user of its own.
    owner = user_of_broker()
    if owner is not None:
        os.chown(path, *owner)
    path.write_text(text, encoding="utf-8")


def _free_ports(number: int) -> list[int]:
    """Ports of loopback that are free, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
