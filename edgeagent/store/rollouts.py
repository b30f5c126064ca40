"""How lists of devices that are updated stand, and what was said of them (SPEC F5).

Owns ``rollouts``. What is asked at every claim is answered by indexes of their own: without an update it
costs nothing that grows.
"""

from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.rollout import Course, Tally, Word
from edgeagent.ids import CommandId, command_id
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.inbox_row import Now
from edgeagent.values import dataclass

_HELD_BACK: Final = """
state = 'waiting' AND reason IN (
    'rollout_window', 'rollout_canary', 'rollout_limit', 'rollout_paused', 'rollout_stopped')
"""
# From list to list, past all of its devices.
_LISTS: Final = f"""
WITH RECURSIVE lists (command) AS (
    SELECT min(command) FROM inbox INDEXED BY inbox_held_back WHERE lane = :lane AND {_HELD_BACK}
     UNION ALL
    SELECT (SELECT min(command) FROM inbox INDEXED BY inbox_held_back
             WHERE lane = :lane AND {_HELD_BACK} AND command > lists.command)
      FROM lists WHERE command IS NOT NULL
)
SELECT command FROM lists WHERE command IS NOT NULL
 ORDER BY EXISTS (SELECT 1 FROM rollouts r WHERE r.command = lists.command AND r.course <> 'going'), command
 LIMIT :most
"""  # noqa: S608 - constant text
_HELD_BACK_OF: Final = f"""
SELECT run FROM inbox INDEXED BY inbox_held_back
 WHERE lane = :lane AND command = :command AND {_HELD_BACK} ORDER BY run LIMIT :most
"""  # noqa: S608 - constant text
_WAIT_FOR: Final = f"""
UPDATE inbox SET reason = :why
 WHERE lane = :lane AND command = :command AND {_HELD_BACK} AND reason <> :why
"""  # noqa: S608 - constant text
_TALLY: Final = """
SELECT state, sent, count(*) AS number FROM inbox INDEXED BY inbox_installs
 WHERE action = 'install' AND command = :command GROUP BY state, sent
"""
# What a person has had repeated counts by its last run.
_REPEATED: Final = """
SELECT count(*) FROM inbox i INDEXED BY inbox_installs
 WHERE i.action = 'install' AND i.command = :command
   AND i.state IN ('failed', 'rolled_back', 'rollback_failed', 'unknown')
   AND EXISTS (SELECT 1 FROM inbox l WHERE l.command = i.command AND l.device = i.device
                                       AND l.ordinal > i.ordinal)
"""
_UNDER_WAY: Final = """
SELECT count(*) FROM inbox INDEXED BY inbox_updating
 WHERE action = 'install' AND (state = 'running' OR (sent = 1 AND state IN ('queued', 'waiting')))
"""
_RUNNING: Final = """
SELECT count(*) FROM inbox INDEXED BY inbox_updating
 WHERE action = 'install' AND (state = 'running' OR (sent = 1 AND state IN ('queued', 'waiting')))
   AND state = 'running' AND lane = :lane
"""
# What is worked by others, or shares what they work, takes no place before its turn.
_NEXT_IN_LINE: Final = """
SELECT count(*) FROM inbox i INDEXED BY inbox_queued_installs
 WHERE i.action = 'install' AND i.state = 'queued' AND i.sent = 0
   AND NOT EXISTS (SELECT 1 FROM locks l
                    WHERE (l.device = i.device OR l.parent = i.parent) AND l.token IS NOT NULL
                      AND l.boot = :boot AND l.incarnation = :incarnation AND l.lease_until > :now)
"""
_WORD: Final = "SELECT course, forgiven FROM rollouts WHERE command = :command"
_SAY: Final = """
INSERT INTO rollouts (command, course, forgiven, actor, why, at)
VALUES (:command, :course, :forgiven, :actor, :why, :at)
ON CONFLICT (command) DO UPDATE
   SET course = excluded.course, forgiven = excluded.forgiven, actor = excluded.actor,
       why = excluded.why, at = excluded.at
"""
_FORGET: Final = """
DELETE FROM rollouts WHERE command <> :command
   AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.command = rollouts.command)
"""
_SAYINGS: Final = "SELECT command, course, forgiven, actor, why, at FROM rollouts ORDER BY command"
# Newest first.
_KNOWN: Final = """
SELECT command FROM inbox INDEXED BY inbox_installs
 WHERE action = 'install' GROUP BY command ORDER BY max(run) DESC LIMIT :most
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """The last word on a list, and whose it is.

    Attributes:
        word: what was said.
        actor: by whom.
        why: for people.
        at: microseconds since 1970.
    """

    word: Word
    actor: str
    why: str
    at: int


def held_back(db: Snapshot, lane: Tier, most: int) -> list[CommandId]:
    """The commands of a lane of which any device is held back, at most so many; first those that go on."""
    return [command_id(str(row[0])) for row in db.rows(_LISTS, {"lane": lane, "most": most})]


def held_back_of(db: Snapshot, lane: Tier, command: CommandId, most: int) -> list[int]:
    """The runs of a command that are held back, in the order of its list, at most so many."""
    fields: dict[str, SqlValue] = {"lane": lane, "command": command, "most": most}
    return [int(row[0]) for row in db.rows(_HELD_BACK_OF, fields)]


def wait_for(tx: Transaction, lane: Tier, command: CommandId, why: Reason) -> None:
    """Note what the devices of a command that are held back wait for now."""
    tx.execute(_WAIT_FOR, {"lane": lane, "command": command, "why": str(why)})


def tally(db: Snapshot, command: CommandId) -> Tally:
    """How the devices of a command stand."""
    found: dict[tuple[str, bool], int] = {
        (str(row["state"]), bool(row["sent"])): int(row["number"])
        for row in db.rows(_TALLY, {"command": command})
    }

    def count(*states: str, sent: bool | None = None) -> int:
        return sum(
            number for (state, was), number in found.items() if state in states and sent in {None, was}
        )

    bad = count("failed", "rolled_back", "rollback_failed", "unknown")
    if bad:
        repeated = db.row(_REPEATED, {"command": command})
        bad -= 0 if repeated is None else int(repeated[0])
    return Tally(
        succeeded=count("succeeded"),
        bad=bad,
        under_way=count("running") + count("queued", "waiting", sent=True),
        queued=count("queued", sent=False),
        left=count("held", "queued", "waiting", sent=False),
        never=count("refused", "expired", "superseded", "cancelled"),
    )


def under_way(db: Snapshot) -> int:
    """How many devices are being updated."""
    row = db.row(_UNDER_WAY)
    return 0 if row is None else int(row[0])


def running(db: Snapshot, lane: Tier) -> int:
    """How many devices are being updated by a lane, right now."""
    row = db.row(_RUNNING, {"lane": lane})
    return 0 if row is None else int(row[0])


def next_in_line(db: Snapshot, now: Now) -> int:
    """How many updates stand queued whose devices are worked by nobody."""
    row = db.row(_NEXT_IN_LINE, now.parameters)
    return 0 if row is None else int(row[0])


def word(db: Snapshot, command: CommandId) -> Word:
    """The last word on a command."""
    row = db.row(_WORD, {"command": command})
    return Word() if row is None else Word(Course(row["course"]), int(row["forgiven"]))


def say(tx: Transaction, command: CommandId, saying: Saying) -> None:
    """Let a word be the last; those on commands that are forgotten go."""
    fields: dict[str, SqlValue] = {
        "command": command,
        "course": str(saying.word.course),
        "forgiven": saying.word.forgiven,
        "actor": saying.actor,
        "why": saying.why,
        "at": saying.at,
    }
    tx.execute(_SAY, fields)
    tx.execute(_FORGET, {"command": command})


def sayings(db: Snapshot) -> dict[CommandId, Saying]:
    """The last word on each command that there was one on."""
    return {
        command_id(str(row["command"])): Saying(
            word=Word(Course(row["course"]), int(row["forgiven"])),
            actor=str(row["actor"]),
            why=str(row["why"]),
            at=int(row["at"]),
        )
        for row in db.rows(_SAYINGS)
    }


def known(db: Snapshot, most: int) -> list[CommandId]:
    """The commands that update devices, those that came last first, at most so many."""
    return [command_id(str(row[0])) for row in db.rows(_KNOWN, {"most": most})]
