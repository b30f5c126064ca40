"""Holds back the devices of a list that are not to be updated yet, in the transaction that claims (SPEC F5).

    queued ──> waiting(rollout_window | canary | limit | paused | stopped) ──> queued ──> claimed

Nothing is remembered but what people said and that a list was stopped: whatever is claimed next is judged
anew by the rows. Waiting so takes no try and no worker. What was begun is never held back.
"""

from dataclasses import field, replace
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import Wall
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.rollout import Course, Room, Tally, Word, is_too_bad, reckoned, room
from edgeagent.core.windows import Opening, opening
from edgeagent.flows.devices import Devices
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ids import CommandId, DeviceId
from edgeagent.store import inbox, outbox, rollouts
from edgeagent.store.audit import Act
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.store.inbox_row import Moved, Now, Row
from edgeagent.store.outbox import NewEvent
from edgeagent.store.rollouts import Saying
from edgeagent.values import dataclass

_LISTS: Final = 256
_PAGE: Final = 256
"""Devices of a list that are looked at in one transaction."""
_LOOK_AGAIN: Final = timedelta(minutes=1)
"""A clock may get surer, and the policy may change, without anybody telling."""


@dataclass(slots=True)
class Outcome:
    """What holding back has come to, in one claim.

    Attributes:
        acts: to be put on record.
        places: how many updates there may be at once by the lane.
        openings: whether a window is open, by how long what is begun lasts.
        held: whether any device is held back.
        within: when to look again at the latest.
        stopped: how many lists were stopped; each is an event.
    """

    acts: list[Act] = field(default_factory=list)
    places: int | None = None
    openings: dict[timedelta, Opening] = field(default_factory=dict)
    held: bool = False
    within: timedelta = _LOOK_AGAIN
    stopped: int = 0


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Says which devices of a list may be begun.

    Attributes:
        devices: the admitted devices.
        trust: has the policy.
        around: time, and whose hub it is.
    """

    devices: Devices
    trust: Trust
    around: Surroundings

    @property
    def rule(self) -> FirmwareRule:
        """That of the policy in force."""
        return FirmwareRule() if self.trust.policy is None else self.trust.policy.firmware

    def let_go_on(self, tx: Transaction, lane: Tier, now: Now, wall: Wall, told: Outcome) -> None:
        """Queue what was held back and may begin now."""
        lists = rollouts.held_back(tx, lane, _LISTS)
        # Those that stand queued come first, whatever list they are of, and whoever is let go on now as well:
        # of a hundred lists for one free place one device is queued, and not a hundred.
        ahead = rollouts.next_in_line(tx, now) if lists else 0
        for command in lists:
            found = self._room(tx, command, told, ahead=ahead)
            number, why = found.number, found.why
            for run in rollouts.held_back_of(tx, lane, command, _PAGE):
                if number <= 0:
                    # The end of one of those that go before it lets it go on.
                    told.held = True
                    why = why or self._room(tx, command, told, ahead=ahead).why
                    break
                row = inbox.by_run(tx, run)
                if row is None:
                    break
                if not self._opening(row.device, wall, told).is_open:
                    why = Reason.ROLLOUT_WINDOW
                    if self.rule.longest is not None:
                        # It is closed for all of them.
                        break
                else:
                    inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=row.force_refresh))
                    told.acts.append(_act(AuditKind.COMMAND_QUEUED, row, row.reason))
                    number -= 1
                    ahead += 1
            if why is not None:
                rollouts.wait_for(tx, lane, command, why)

    def holds_back(self, tx: Transaction, row: Row, wall: Wall, told: Outcome) -> bool:
        """Have a queued command wait if it may not begin yet.

        Returns:
            Whether it waits.
        """
        if row.action is not ActionName.INSTALL or row.sent:
            return False
        why = self._room(tx, row.command, told).why
        if why is None and not self._opening(row.device, wall, told).is_open:
            why = Reason.ROLLOUT_WINDOW
        if why is None:
            return False
        inbox.move(tx, row, Moved(State.WAITING, why, force_refresh=row.force_refresh))
        told.acts.append(_act(AuditKind.COMMAND_WAITING, row, why))
        told.held = True
        return True

    def standing(self, db: Snapshot, command: CommandId) -> Room:
        """How many more of a command may begin, the windows aside."""
        return room(
            self.rule, rollouts.tally(db, command), rollouts.word(db, command), at_hub=rollouts.under_way(db)
        )

    def opening(self, device: DeviceId, wall: Wall) -> Opening:
        """Whether a window is open for a device."""
        return opening(self.rule, wall, self.reckoned(device))

    def reckoned(self, device: DeviceId) -> timedelta:
        """How long an update of a device is reckoned to last."""
        known = self.devices.get(device)
        return reckoned(self.rule, None if known is None else known.compiled.profile.firmware)

    def _opening(self, device: DeviceId, wall: Wall, told: Outcome) -> Opening:
        lasts = self.reckoned(device)
        if lasts not in told.openings:
            told.openings[lasts] = opening(self.rule, wall, lasts)
        found = told.openings[lasts]
        if not found.is_open:
            told.held = True
            if found.at is not None:
                told.within = min(told.within, found.at - wall.earliest)
        return found

    def _room(self, tx: Transaction, command: CommandId, told: Outcome, *, ahead: int | None = None) -> Room:
        """How many more of a command may begin.

        Args:
            tx: which claims.
            command: which.
            told: is told of it.
            ahead: how many updates are next in line; None for one of which it is asked itself.
        """
        tally, word = rollouts.tally(tx, command), rollouts.word(tx, command)
        if word.course is Course.GOING and is_too_bad(self.rule, tally, word):
            self._stop(tx, command, tally, word, told)
            word = rollouts.word(tx, command)
        if ahead is not None:
            tally = replace(tally, under_way=tally.under_way + tally.queued)
        at_hub = rollouts.under_way(tx) + (ahead or 0)
        found = room(self.rule, tally, word, at_hub=at_hub, places=told.places)
        told.held = told.held or not found.number
        return found

    def _stop(self, tx: Transaction, command: CommandId, tally: Tally, word: Word, told: Outcome) -> None:
        """Put on record that a list is stopped, and call for a person, once."""
        why = f"{tally.bad - word.forgiven} of its devices ended badly, {tally.left} are not begun"
        at = self.around.event_time()
        said = Word(Course.STOPPED, word.forgiven)
        rollouts.say(tx, command, Saying(word=said, actor="agent", why=why, at=at.at))
        data: dict[str, JsonValue] = {"reason": Reason.ROLLOUT_STOPPED, "command": command, "words": why}
        event = NewEvent(Stream.RECORD, EventType.ALERT, None, at, data_text(data))
        outbox.append(tx, [event], incarnation=self.around.origin.incarnation)
        told.stopped += 1
        told.acts.append(
            Act(kind=AuditKind.ROLLOUT_STOPPED, subject=command, actor="agent", detail={"why": why})
        )


def _act(kind: AuditKind, row: Row, reason: Reason | None) -> Act:
    return Act(
        kind=kind,
        subject=row.command,
        actor="agent",
        detail={"device": row.device, "run": row.run, "reason": reason, "attempts": row.attempts},
    )
