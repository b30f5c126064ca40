"""How one breaker has to stand, in as few rules as there are: what the hub's own are held against.

It knows no store and no clock, only how much boot time has passed.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from edgeagent.contracts.policy import BreakerRule, WhenOpen
from tests.flows.signing import MINUTE, SECOND

RARELY: Final = 10_000
# What goes wrong while it is worked opens a half-open one again; to open a closed one it is too little here.
RULE: Final = BreakerRule(
    refusals=3,
    off_target=2,
    retries=RARELY,
    dead_letters=RARELY,
    lease_losses=RARELY,
    within=MINUTE,
    open_for=3 * MINUTE,
    slow_pace=10 * SECOND,
)


@dataclass(slots=True)
class Standing:
    """One breaker, as it has to stand.

    Attributes:
        noted: boot time of each refusal that counts, of this boot.
        opened: boot time at which it opened; 0 for an earlier boot, None while it is closed.
        span: how long it stays open; None until it is reset.
        probe: the run that tries.
        let_by: boot time at which one was last judged while it slows; 0 for an earlier boot.
    """

    noted: list[timedelta] = field(default_factory=list)
    opened: timedelta | None = None
    span: timedelta | None = None
    probe: int | None = None
    let_by: timedelta | None = None

    def is_half_open(self, now: timedelta) -> bool:
        """Whether its time is over."""
        return self.opened is not None and self.span is not None and now - self.opened >= self.span

    def is_shut(self, how: WhenOpen, now: timedelta) -> bool:
        """Whether a command that comes now is stopped."""
        if self.opened is None:
            return False
        if self.is_half_open(now):
            return self.probe is not None
        is_slow = how is WhenOpen.SLOW and self.probe is None
        return not is_slow or (self.let_by is not None and now - self.let_by < RULE.slow_pace)

    def opens(self, now: timedelta, span: timedelta | None = RULE.open_for) -> None:
        """It opens, or opens again."""
        self.opened, self.span, self.probe, self.let_by, self.noted = now, span, None, None, []

    def closes(self) -> None:
        """It closes, and nothing counts any more."""
        self.opened = self.span = self.probe = self.let_by = None
        self.noted = []

    def takes(self, run: int, now: timedelta) -> None:
        """A command is let in."""
        if self.opened is None or self.probe is not None:
            return
        if self.is_half_open(now):
            self.probe = run
        else:
            self.let_by = now

    def refuses(self, most: int, now: timedelta) -> None:
        """A command that no honest sender makes has come as far as being judged."""
        if self.opened is not None:
            if self.is_half_open(now):
                self.opens(now)
            elif self.probe is None:
                self.let_by = now
            return
        self.noted = [each for each in self.noted if now - each < RULE.within] + [now]
        if len(self.noted) >= most:
            self.opens(now)

    def reboots(self) -> None:
        """What was in the boot before began no later than this boot: longer ago nobody knows it to be."""
        self.noted = []
        self.opened = None if self.opened is None else timedelta(0)
        self.let_by = None if self.let_by is None else timedelta(0)
