"""The kill switch in a living venue: thrown from afar, kept through a kill, taken back at the hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.issuer.keys import save_key
from tests.cli.building import Said, typed
from tests.support.agents_venue import HUB, PLUG, Venue
from tests.support.private import write_private

pytestmark = [pytest.mark.slow, pytest.mark.requirement("B3")]


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """A venue with one plug, whose agent runs."""
    with Venue(tmp_path) as running:
        running.open()
        yield running


class Guard:
    """Whoever holds the key that stops, with the words of the command line."""

    def __init__(self, venue: Venue) -> None:
        self._key = venue.folder / "guard.pem"
        save_key(venue.keys.guard, self._key)
        token = venue.folder / "issuer.token"
        write_private(token, venue.server.issuer_token)
        self._login = ("--queue", venue.server.url, "--token-file", str(token))
        self._order = venue.folder / "order.json"

    def orders(self, verb: str, kind: str) -> Said:
        """Sign an order, send it, and wait for its end."""
        words = ("issuer", "order", "sign", verb, kind, "--hub", HUB, "--key", str(self._key))
        signed = typed(*words, *self._login)
        assert signed.status == 0, signed.err
        self._order.write_text(signed.out)
        sent = typed("issuer", "send", str(self._order), *self._login)
        assert sent.status == 0, sent.err
        return typed("issuer", "watch", HUB, sent.out.split()[0], "--within", "2m", *self._login)


def test_what_is_stopped_from_afar_stays_stopped_through_a_kill_until_it_is_resumed(venue: Venue) -> None:
    guard = Guard(venue)

    stopped = guard.orders("stop", "action:toggle")
    first = venue.end_of(venue.order(PLUG, ActionName.TOGGLE))
    other = venue.end_of(venue.order(PLUG, ActionName.POWER, {"on": True}))
    venue.agent.kill()
    venue.agent.start()
    second = venue.end_of(venue.order(PLUG, ActionName.TOGGLE))
    typed_here = venue.agent.run("send", PLUG, "toggle")

    assert (stopped.status, "stopped action:toggle" in stopped.out) == (0, True)
    for receipt in (first, second):
        assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.STOPPED)
    assert typed_here.returncode == 1
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0
    assert other.outcome is Outcome.SUCCEEDED

    resumed = venue.agent.run("hub", "resume", "action:toggle", "--why", "all clear")
    done = venue.end_of(venue.order(PLUG, ActionName.TOGGLE))
    again = guard.orders("stop", "action:toggle")

    assert resumed.returncode == 0
    assert done.outcome is Outcome.SUCCEEDED
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert again.status == 0
    assert venue.agent.run("health").returncode == 1
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
