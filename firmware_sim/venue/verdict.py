"""The verdict: statements about what the witnesses saw, each true or false, with its numbers.

Pure functions of values, so that a broken promise can be shown to be found out. A statement that this
broker gives no means to judge says so, and counts for neither side.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from firmware_sim.venue.evidence import Evidence, Receipt, Stream

SHOWN: Final = 5
"""As many names or numbers are shown of those that are wrong."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of the verdict.

    Attributes:
        words: what is said.
        numbers: what was counted.
        holds: whether it is true; None where it could not be judged.
    """

    words: str
    numbers: str
    holds: bool | None


@dataclass(slots=True)
class Asked:
    """What was asked of the venue in all, to be held against what the appliances did.

    Attributes:
        commands: the ids of the commands that were to reach the hub; one for a list, once for each of it.
        changes: how often each action was to change something, by appliance.
    """

    commands: list[str] = field(default_factory=list)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)


def verdict(statements: Collection[Statement]) -> bool:
    """Whether nothing that was said is false, and something was said."""
    return bool(statements) and all(statement.holds is not False for statement in statements)


def readings_kept(evidence: Evidence, burst: range, *, doubles_can_be_told: bool) -> list[Statement]:
    """What became of the readings of a burst.

    Args:
        evidence: what was seen.
        burst: their numbers.
        doubles_can_be_told: False where the broker does not mark what it sends again.
    """
    acknowledged = evidence.acknowledged(burst)
    heard = acknowledged & evidence.heard.keys()
    stored = acknowledged & evidence.stored.keys()
    twice = [number for number in burst if evidence.stored[number] > 1]
    doubles = f"{len(twice)} stored twice{_some(twice)}"
    if not doubles_can_be_told:
        doubles += "; not judged: this broker does not mark redeliveries"
    return [
        Statement(
            "The broker acknowledged every reading to its appliance.",
            f"{len(acknowledged):,} of {len(burst):,}",
            len(acknowledged) == len(burst),
        ),
        Statement(
            "A listener at the broker heard each of them.",
            f"{len(heard):,} of {len(acknowledged):,}{_some(acknowledged - heard)}",
            heard == acknowledged,
        ),
        Statement(
            "Every acknowledged reading is at the cloud.",
            f"{len(stored):,} of {len(acknowledged):,}{_some(acknowledged - stored)}",
            stored == acknowledged,
        ),
        Statement("No reading is stored twice.", doubles, not twice if doubles_can_be_told else None),
    ]


def done(evidence: Evidence, appliance: str, action: str, *, times: int, name: str) -> Statement:
    """How often an appliance did something on command, by its own journal.

    Args:
        evidence: what was seen.
        appliance: its id.
        action: what.
        times: how often it was to do it.
        name: of the appliance, for people.
    """
    count = len(evidence.effects(appliance, action))
    words = f"{name} carried out {action} {_often(times)}, by its own journal."
    return Statement(words, f"{count} of {times}", count == times)


def changed(evidence: Evidence, appliance: str, action: str, *, times: int, name: str) -> Statement:
    """How often an appliance was changed on command: what may be sent again may only change it once."""
    effects = evidence.effects(appliance, action)
    count = sum(effect.changed for effect in effects)
    return Statement(
        f"{name} was changed by {action} {_often(times)}, by its own journal.",
        f"{count} of {times}, carried out {len(effects)}",
        count == times,
    )


def ended(
    evidence: Evidence,
    command: str,
    *,
    outcomes: Collection[str],
    reason: str | None = None,
    on: tuple[str, str] | None = None,
) -> Statement:
    """How a command ended, by the one receipt of it at the cloud.

    Args:
        evidence: what was seen.
        command: its id.
        outcomes: those that keep the promise.
        reason: the reason that the receipt has to give; None for any.
        on: of a list, the id of one of its appliances and what people call it.
    """
    receipts = [one for one in evidence.receipts(command) if on is None or one.device == on[0]]
    fits = len(receipts) == 1 and _fits(receipts[0], outcomes, reason)
    wanted = " or ".join(outcomes) + (f", {reason.replace('_', ' ')}" if reason else "")
    words = f"The cloud has one receipt of the command{'' if on is None else f' for {on[1]}'}: {wanted}."
    return Statement(words, "; ".join(one.words() for one in receipts) or "no receipt", fits)


def stopped(evidence: Evidence, action: str, origin: str, *, signal: str) -> Statement:
    """Whether the hub has told the cloud that it has stopped an action of an origin, and nothing else.

    Args:
        evidence: what was seen.
        action: what is stopped.
        origin: whose, by the id of the key.
        signal: what there was too much of.
    """
    alerts = [alert for alert in evidence.alerts("breaker_open") if alert.get("action") == action]
    fits = len(alerts) == 1 and (alerts[0].get("origin"), alerts[0].get("signal")) == (origin, signal)
    words = f"The hub has told the cloud that {action} of this key is stopped: {signal.replace('_', ' ')}."
    return Statement(words, f"{len(alerts)} of 1", fits)


def whole(evidence: Evidence) -> list[Statement]:
    """Whether the record at the cloud is complete, and nothing that it holds is there twice."""
    numbers = {event.number for event in evidence.events[Stream.RECORD]}
    last = max(numbers, default=0)
    missing = set(range(1, last + 1)) - numbers
    ids = Counter(event.id for events in evidence.events.values() for event in events)
    twice = [id_ for id_, times in ids.items() if times > 1]
    return [
        Statement(
            "The hub's record is at the cloud without a hole.",
            f"1 to {last:,}, {len(missing)} missing{_some(missing)}",
            bool(numbers) and not missing,
        ),
        Statement(
            "No event at the cloud has the id of another.",
            f"{ids.total():,} events, {len(twice)} twice{_some(twice)}",
            not twice,
        ),
    ]


def each_ended_once(evidence: Evidence, asked: Asked) -> Statement:
    """Whether every command that was to reach the hub has one end, and no other command has any."""
    ends = Counter(receipt.command for receipt in evidence.receipts())
    wrong = [command for command, times in Counter(asked.commands).items() if ends[command] != times]
    strangers = ends.keys() - set(asked.commands)
    known = len(set(asked.commands))
    numbers = f"{known - len(wrong)} of {known}{_some(wrong)}"
    if strangers:
        numbers += f"; {len(strangers)} of commands that nobody gave{_some(strangers)}"
    return Statement(
        "Every command ended once, on each of its appliances.", numbers, not wrong and not strangers
    )


def nothing_else_done(evidence: Evidence, asked: Asked) -> Statement:
    """Whether the appliances were changed as often as was asked for, and in no other way."""
    seen = Counter((effect.appliance, effect.action) for effect in evidence.effects() if effect.changed)
    too_much, too_little = seen - asked.changes, asked.changes - seen
    numbers = f"{seen.total()} changes, {asked.changes.total()} asked for"
    wrong = [f"{count} more of {action} by {appliance}" for (appliance, action), count in too_much.items()]
    wrong += [f"{count} less of {action} by {appliance}" for (appliance, action), count in too_little.items()]
    return Statement(
        "The appliances did what was asked and nothing else.",
        numbers + _some(wrong),
        not too_much and not too_little,
    )


def _fits(receipt: Receipt, outcomes: Collection[str], reason: str | None) -> bool:
    return receipt.outcome in outcomes and reason in {None, receipt.reason}


def _often(times: int) -> str:
    return {0: "never", 1: "once"}.get(times, f"{times} times")


def _some(wrong: Collection[object]) -> str:
    """The first few of those that are wrong."""
    if not wrong:
        return ""
    first: Sequence[str] = sorted(str(one) for one in wrong)[:SHOWN]
    return f" ({', '.join(first)}{', …' if len(wrong) > SHOWN else ''})"
