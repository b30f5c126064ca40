"""The chapters, in the order in which they are played."""

from typing import Final

from firmware_sim.venue.chapters.chapter import Chapter
from firmware_sim.venue.chapters.command import COMMAND
from firmware_sim.venue.chapters.crash import CRASH
from firmware_sim.venue.chapters.cut import CUT
from firmware_sim.venue.chapters.expired import EXPIRED
from firmware_sim.venue.chapters.firmware import FIRMWARE
from firmware_sim.venue.chapters.off_list import OFF_THE_LIST
from firmware_sim.venue.chapters.readings import READINGS
from firmware_sim.venue.chapters.replay import REPLAY
from firmware_sim.venue.chapters.stale import STALE
from firmware_sim.venue.chapters.unapproved import UNAPPROVED
from firmware_sim.venue.chapters.worker import WORKER

BOOK: Final[tuple[Chapter, ...]] = (
    READINGS,
    COMMAND,
    REPLAY,
    EXPIRED,
    STALE,
    CRASH,
    CUT,
    WORKER,
    UNAPPROVED,
    OFF_THE_LIST,
    FIRMWARE,
)
