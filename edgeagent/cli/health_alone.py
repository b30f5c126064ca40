"""What ``edgeagent health`` finds out by itself while no agent answers.

Each look is bounded and needs no agent. What only the agent's user may see is looked at by that user and
root; for others it is said that it was not. Nothing is written.
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.clock import BUILT_AT, ClockSource, SystemTime, Wall
from edgeagent.config import Config
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.errors import ConfigurationError, StorageError

UNITS: Final = ("edgeagent.service", "edgeagent-worker.service", "edgeagent-fetch.socket")
"""Ours."""
_PATIENCE: Final = timedelta(seconds=3)
_CONFIGURATION: Final = 78
_START: Final = "systemctl start edgeagent; journalctl -u edgeagent -n 50"
_DAMAGED: Final = (
    "start the agent: the file is set aside, never deleted, and a new epoch begins; or put a backup back "
    "first: edgeagent backup restore"
)
_LATER: Final = (
    "install the newer edgeagent again, or put a backup from before its upgrade back: edgeagent backup list, "
    "edgeagent backup restore"
)


def looked_alone(config: Config, path: Path) -> list[Check]:
    """Look at all that can be looked at without an agent.

    Args:
        config: the configuration.
        path: where it stands.
    """
    from edgeagent.flows.machine.disk import disk_checks

    checks = [*looked_at_machine(), _broker_port(config)]
    if not _is_ours(config.hub.state_dir):
        return [*checks, _rights()]
    checks += [*disk_checks(config.hub.state_dir), _configuration(config, path), _database(config.database)]
    return [*checks, _certificates(config, path)]


def looked_at_machine() -> list[Check]:
    """Look at what takes no configuration: the units, the clock, the machine."""
    from edgeagent.flows.machine.heat import heat_check
    from edgeagent.flows.machine.kernel import Kernel
    from edgeagent.flows.machine.memory import memory_check

    kernel = Kernel()
    return [_units(), _clock(SystemTime()), memory_check(kernel, own=False), heat_check(kernel)]


def wrong_configuration(why: ConfigurationError, path: Path) -> Check:
    """What is said of a configuration that cannot be taken, or is not there."""
    if isinstance(why.__cause__, FileNotFoundError):
        summary, advice = f"there is no {path}: this machine is not set up", "sudo edgeagent setup"
        return _check("configuration", Level.CRITICAL, summary, advice)
    return _mistakes(str(why).split("\n"))


def _is_ours(folder: Path) -> bool:
    """Whether we may see what is in the folder of the state; where there is none, everybody may say so."""
    try:
        return os.geteuid() in {0, folder.stat().st_uid}
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _rights() -> Check:
    return Check(
        name="rights",
        level=Level.UNKNOWN,
        summary="disk, database, configuration and certificates are for the agent's user and root to look at",
        advice="sudo edgeagent health",
    )


def _units() -> Check:
    from edgeagent.adapters.units import units

    try:
        found = [unit for unit in units(UNITS, _PATIENCE) if unit.load != "not-found"]
    except OSError as why:
        return _check("units", Level.UNKNOWN, f"systemd cannot be asked: {why}", "systemctl status edgeagent")
    if not found:
        return _check("units", Level.OK, "the agent is no unit of systemd here")
    agent = next((unit for unit in found if unit.name == UNITS[0]), None)
    told = "; ".join(f"{unit.name} is {unit.active}, {unit.result}" for unit in found)
    failed = [unit for unit in found if unit.active == "failed"]
    level, advice = (Level.CRITICAL, f"journalctl -u {failed[0].name} -n 50") if failed else (Level.OK, "")
    if agent is not None and agent.status == _CONFIGURATION:
        advice = "edgeagent config check, and what database says here; then systemctl start edgeagent"
    elif agent is not None and agent.result == "start-limit-hit":
        advice = (
            "journalctl -u edgeagent -n 100; then systemctl reset-failed edgeagent, systemctl start edgeagent"
        )
    elif agent is not None and not agent.condition:
        level, advice = (
            Level.CRITICAL,
            f"sudo edgeagent setup, if it was never set up; else {_START}",
        )
    elif agent is not None and agent.active != "active" and not failed:
        level, advice = Level.CRITICAL, _START
    return _check("units", level, told, advice)


def _clock(time: SystemTime) -> Check:
    """The clock as the kernel has it; what the agent knew of it is in its last report."""
    now, error = time.wall(), time.synchronised()
    if now < BUILT_AT:
        return _check(
            "clock",
            Level.CRITICAL,
            f"it says {now:%Y-%m-%d %H:%M} UTC, which is past for certain",
            "timedatectl; start a time service (systemd-timesyncd, chrony), or set it: date -s",
        )
    if error is None:
        return _check(
            "clock",
            Level.WARNING,
            f"it says {now:%Y-%m-%d %H:%M} UTC, and the kernel does not stand by it",
            "timedatectl; start a time service (systemd-timesyncd, chrony)",
        )
    return _check("clock", Level.OK, f"known from kernel within {error.total_seconds():.3f} s")


def _broker_port(config: Config) -> Check:
    from edgeagent.adapters.reach import knock

    place = f"{config.broker.host} port {config.broker.port}"
    try:
        knock(config.broker.host, config.broker.port, _PATIENCE)
    except OSError as why:
        return _check(
            "broker-port",
            Level.CRITICAL,
            f"{place} takes no connection: {why.strerror or why}",
            "systemctl status mosquitto, and [broker] in the configuration",
        )
    return _check("broker-port", Level.OK, f"{place} takes connections")


def _configuration(config: Config, path: Path) -> Check:
    from edgeagent.cli.config import problems

    found = problems(config, path)
    if not found:
        return _check("configuration", Level.OK, f"{path} is in order")
    return _mistakes(found)


def _mistakes(found: Sequence[str]) -> Check:
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    return _check("configuration", Level.CRITICAL, f"{found[0]}{more}", "edgeagent config check")


def _database(path: Path) -> Check:
    """Look at the file for two seconds at most, and leave it as it is."""
    from edgeagent.store.files import MIGRATIONS, DamagedFileError, check_file, tables_known

    if not path.exists():
        return _check("database", Level.OK, f"there is none yet in {path.parent}")
    try:
        is_whole = check_file(path, tables_known(MIGRATIONS))
    except DamagedFileError as why:
        return _check("database", Level.CRITICAL, f"damaged: {why}", _DAMAGED)
    except ConfigurationError as why:
        return _not_for_us(why)
    except StorageError as why:
        if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            # SQLite wants to make a file beside it, and cannot; it may be whole all the same.
            return _check("database", Level.UNKNOWN, str(why), "see the check filesystem")
        return _check("database", Level.CRITICAL, str(why), "dmesg; ls -l on it; fuser -v on it")
    seen = "all its pages hang together" if is_whole else "its first pages do; there was no time for all"
    return _check("database", Level.OK, seen)


def _not_for_us(why: ConfigurationError) -> Check:
    """A database that is whole, and that no start of this edgeagent takes."""
    from edgeagent.store.files import LaterTablesError

    if isinstance(why, LaterTablesError):
        return _check("database", Level.CRITICAL, why.what, _LATER)
    return _check("database", Level.CRITICAL, str(why), "install the newer edgeagent again, or ls -l on it")


def _certificates(config: Config, path: Path) -> Check:
    from edgeagent import settings

    now = SystemTime().wall()
    wall = Wall(best=now, earliest=now, latest=None, source=ClockSource.NONE)
    return settings.certificate_files(config, path).check(wall)


def _check(name: str, level: Level, summary: str, advice: str = "") -> Check:
    return Check(name=name, level=level, summary=summary, advice=advice)
