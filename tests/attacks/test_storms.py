"""A storm of a thousand failing commands costs a bounded number of commits, rows, lines and messages.

What is counted is what the agent has made durable (each commit of its database syncs once), written into its
trail and its log, and sent to devices; no time is measured here, ``python -m bench.storm`` does that.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from bench.native import compiled
from bench.processes import Watch
from edgeagent.contracts.actions import ActionName
from edgeagent.ids import DeviceId
from edgeagent.issuer.commands import SignedCommand
from tests.attacks.wrong_hands import Hands, in_wrong_hands
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query
from tests.support.stubborn_lamps import OTHER, REFUSES, StubbornLamps

STORM: Final = 1000
LAMPS: Final = 20
ON: Final = {"on": True}
# What the agent writes by itself while a storm lasts: floors of time, a checkpoint, readings that came late.
BY_ITSELF: Final = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.threat("T14", "T53"),
    pytest.mark.requirement("B1", "E1", "E2", "R7", "T9"),
]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a storm has cost.

    Attributes:
        syncs: commits, and what else was made durable.
        audited: rows of the trail.
        stored: rows of the inbox.
        lines: of the log.
        sent: commands to devices.
    """

    syncs: int
    audited: int
    stored: int
    lines: int
    sent: int


@dataclass(slots=True)
class Weather:
    """A venue with lamps, and what it costs.

    Attributes:
        hands: what somebody can do who owns the queue.
        lamps: there.
        watch: what the agent has used.
    """

    hands: Hands
    lamps: StubbornLamps
    watch: Watch

    def spent(self) -> Cost:
        """What was spent since the start."""
        agent = self.hands.venue.agent
        [(audited,)] = query(agent.database, "SELECT count(*) FROM audit")
        [(stored,)] = query(agent.database, "SELECT count(*) FROM inbox")
        assert isinstance(audited, int)
        assert isinstance(stored, int)
        return Cost(self.watch.use().syncs, audited, stored, agent.log.count("\n"), self.lamps.heard)

    def is_over(self) -> bool:
        """Whether no command is open any more."""
        agent = self.hands.venue.agent
        open_ = "SELECT count(*) FROM inbox WHERE state IN ('held', 'queued', 'waiting', 'running')"
        return query(agent.database, open_) == [(0,)]

    def costs(self, envelopes: list[bytes], *, times: int = 1) -> Cost:
        """Lend a storm, and wait until it is over."""
        before = self.spent()
        for envelope in envelopes:
            self.hands.queue.lend(envelope, times=times)
        self.hands.queue.wait_until_taken(within=120)
        wait_until(self.is_over, "the storm to be over", within=120)
        return Cost(*(now - then for now, then in zip(astuple(self.spent()), astuple(before), strict=True)))


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Weather]:
    """A venue whose agent's syncs are counted."""
    tools = compiled(tmp_path / "tools")
    counts = tmp_path / "counts"

    def counted(venue: Venue) -> None:
        venue.agent.environment = {"LD_PRELOAD": str(tools.counter), "IOCOUNT_FILE": str(counts)}

    with ExitStack() as stack:
        hands = stack.enter_context(in_wrong_hands(tmp_path / "venue", prepare=counted))
        lamps = stack.enter_context(StubbornLamps(hands.venue.broker, LAMPS))
        lamps.are_admitted(hands.venue.agent)
        yield Weather(hands, lamps, Watch(hands.venue.agent.pid, counts))


Sky = Callable[[Weather, int], SignedCommand]


def for_nobody(weather: Weather, number: int) -> SignedCommand:
    """For a device that is not here, another one each time."""
    hands = weather.hands
    return hands.sign(ActionName.TOGGLE, by=[hands.venue.keys.desk], device=DeviceId(f"nobody-{number}"))


def for_no_such_action(weather: Weather, _: int) -> SignedCommand:
    """What a plug cannot do."""
    hands = weather.hands
    return hands.sign(ActionName.VOLUME, {"level": 5}, by=[hands.venue.keys.desk], device=PLUG)


def for_too_long(weather: Weather, number: int) -> SignedCommand:
    """Good for longer than the policy lets anything be."""
    hands = weather.hands
    device = weather.lamps.devices[number % LAMPS]
    return hands.sign(
        ActionName.POWER, ON, by=[hands.venue.keys.desk], device=device, valid_for=timedelta(hours=2)
    )


@pytest.mark.parametrize("sky", [for_nobody, for_no_such_action, for_too_long])
def test_what_is_refused_on_arrival_costs_rows_until_its_breaker_opens_and_then_one_a_minute(
    weather: Weather, sky: Sky
) -> None:
    storm = [sky(weather, number).envelope for number in range(STORM)]

    cost = weather.costs(storm)

    assert cost.sent == 0
    # The breaker opens at 20 refusals; up to a lease's worth of commands is judged before it is seen.
    assert cost.stored <= 40
    assert cost.audited <= 2 * 40 + BY_ITSELF
    assert cost.lines <= 2 * 40 + BY_ITSELF
    # A commit for each lease of 20 at most, and for what goes up.
    assert cost.syncs <= 3 * STORM // 20 + BY_ITSELF


def test_one_that_comes_a_thousand_times_is_done_once_and_counted(weather: Weather) -> None:
    once = weather.hands.sign(
        ActionName.POWER, ON, by=[weather.hands.venue.keys.desk], device=weather.lamps.devices[0]
    )

    cost = weather.costs([once.envelope], times=STORM)

    assert (cost.sent, cost.stored) == (1, 1)
    assert cost.audited <= BY_ITSELF
    assert cost.lines <= BY_ITSELF
    assert cost.syncs <= 3 * STORM // 20 + BY_ITSELF


@pytest.mark.parametrize(
    ("answer", "lamps"), [(REFUSES, LAMPS), (OTHER, 5)], ids=["says no", "does something else"]
)
def test_what_fails_at_its_device_costs_no_more_than_its_tries(
    weather: Weather, answer: bytes, lamps: int
) -> None:
    """All are for one slot of few lamps: what a later one has overtaken is not even begun."""
    weather.lamps.answer = answer
    hands = weather.hands
    storm = [
        hands.sign(
            ActionName.POWER, ON, by=[hands.venue.keys.desk], device=weather.lamps.devices[number % lamps]
        ).envelope
        for number in range(STORM)
    ]

    cost = weather.costs(storm)

    [(attempts, tried)] = query(
        hands.venue.agent.database, "SELECT sum(attempts), count(*) FROM inbox WHERE attempts > 0"
    )
    assert isinstance(attempts, int)
    assert isinstance(tried, int)
    assert cost.sent == attempts <= 3 * tried
    assert cost.stored <= STORM
    # Accepted, overtaken; of those that are worked also claimed, sent, ended, tried again.
    assert cost.audited <= 2 * STORM + 12 * attempts + BY_ITSELF
    assert cost.lines <= 2 * STORM + 8 * attempts + BY_ITSELF
    assert cost.syncs <= 3 * STORM // 20 + 12 * attempts + BY_ITSELF
