"""``python -m tests.vectors.databases``: let the real agent of this checkout work, and keep its database.

To be run once before a release, with the agent that is released: what it writes is never made anew, since
a later agent could only make a later one. A real broker, a real queue and simulated plugs stand around it.
What is left has everything that an upgrade must not lose: readings that the cloud has not got, commands that
are over, one that is being worked, receipts, a stopped kind, a drill, and the trail with its chain.
"""

import gzip
import tempfile
from pathlib import Path

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import Stream
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query
from tests.vectors.databases.kept import FOLDER, put_key, vacuumed


def main() -> None:
    """Make the file of the present schema, if there is none."""
    with tempfile.TemporaryDirectory() as folder, Venue(Path(folder), plugs=2) as venue:
        put_key(venue.agent.state_dir)
        venue.open()
        done = venue.order(PLUG, ActionName.TOGGLE)
        venue.end_of(done)
        venue.agent.run("hub", "stop", "action:reboot", "--why", "repairs")
        venue.agent.run("drill", "lock")
        venue.unplug()
        wait_until(lambda: venue.agent.device(PLUG).online is False, "the plug to be gone")
        venue.order(PLUG, ActionName.POWER, {"on": True})
        states = "SELECT state FROM inbox WHERE state = 'waiting'"
        wait_until(lambda: query(venue.agent.database, states) != [], "a command for later")
        venue.server.kill()
        venue.plug_in()
        venue.burst(20).finish()
        wait_until(lambda: venue.agent.outbox().streams[Stream.TELEMETRY].events > 0, "readings that wait")
        venue.unplug()
        venue.agent.stop()
        [(schema,)] = query(venue.agent.database, "PRAGMA user_version")
        target = FOLDER / f"schema-{int(str(schema)):04d}.db.gz"
        with target.open("xb") as file:
            file.write(gzip.compress(vacuumed(venue.agent.database, Path(folder)), 9, mtime=0))


main()
