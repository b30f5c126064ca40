"""What commands are called: the ids in the inbox, found by how they begin.

A range of the index over commands, so that it costs the same however many have come.
"""

from typing import Final

from edgeagent.core.short_names import MOST, upper_end
from edgeagent.ids import CommandId
from edgeagent.store.database import Snapshot, SqlValue

_BEGIN_SO: Final = """
SELECT DISTINCT command FROM inbox WHERE command >= :first AND command < :upper ORDER BY command LIMIT :most
"""


def begin_so(db: Snapshot, typed: CommandId) -> list[str]:
    """The ids that begin with what was typed, in their order: at most ``MOST`` and one more."""
    fields: dict[str, SqlValue] = {"first": typed, "upper": upper_end(typed), "most": MOST + 1}
    return [str(row["command"]) for row in db.rows(_BEGIN_SO, fields)]
