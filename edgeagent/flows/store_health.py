"""How the database stands, for health: which fault, since when, what follows, what to do (SPEC R2, O5)."""

from datetime import timedelta
from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.storekeeping import Ailing, StoreKeeping
from edgeagent.store.trouble import Fault

_STANDS: Final = "readings are not taken and no command is taken or run"
_WORDS: Final = {
    Fault.FULL: "the disk is full",
    Fault.READ_ONLY: "the file system is read-only",
    Fault.FAILED_SYNC: "the disk has lost what it had taken",
    Fault.IO: "the disk cannot be read or written",
    Fault.DAMAGED: "the database is damaged",
    Fault.BUSY: "another program holds the database",
}
_ADVICE: Final = {
    Fault.FULL: "free some space, or wait until the outbox has drained; it goes on by itself",
    Fault.READ_ONLY: "dmesg says why; it goes on by itself once it may write, or stop it and mount anew",
    Fault.FAILED_SYNC: "dmesg; replace the disk or card soon; it goes on by itself while writes succeed",
    Fault.IO: "dmesg; check the disk, its cable or card; it goes on by itself once writes succeed",
    Fault.DAMAGED: "stop the agent and start it: it sets aside what it finds; else edgeagent backup restore",
    Fault.BUSY: "find the program with fuser -v on hub.db, and end it",
}
RESTORE: Final = (
    "edgeagent backup list; then systemctl stop edgeagent, and edgeagent backup restore one made before: "
    "what is here is kept beside it as replaced-..."
)
"""What to do about damage while the database takes writes: a start may not see it in its short look."""


def store_check(keeping: StoreKeeping, trouble: str) -> Check:
    """Look at the database.

    Args:
        keeping: looks after it.
        trouble: why readings are not taken, as whoever takes them was told; empty when they are.
    """
    ailing = keeping.ailing
    if ailing is not None:
        return _check(Level.CRITICAL, _told(ailing, keeping.lasted(ailing)), _ADVICE[ailing.fault])
    if trouble:
        return _check(Level.CRITICAL, f"{_STANDS}: {trouble}", "see the check disk; it goes on by itself")
    if keeping.damage:
        return _check(Level.CRITICAL, f"takes writes, but is damaged: {keeping.damage}", RESTORE)
    return _check(Level.OK, "takes writes")


def in_words(length: timedelta) -> str:
    """A length of time in its largest unit of which there are two."""
    seconds = int(length.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _told(ailing: Ailing, length: timedelta) -> str:
    return (
        f"{_WORDS[ailing.fault]}, for {in_words(length)}: {_STANDS}; "
        f"{ailing.failures} commits failed, the last: {ailing.why}"
    )


def _check(level: Level, summary: str, advice: str = "") -> Check:
    return Check(name="database", level=level, summary=summary, advice=advice)
