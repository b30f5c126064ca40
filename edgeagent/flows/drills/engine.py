"""One start of a drill's engine: the parts of the agent's own, over another file, broker and policy."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from edgeagent.contracts.policy import Policy, Tier
from edgeagent.core.envelope import Signer
from edgeagent.flows.admission import Admission
from edgeagent.flows.dead_letters import DeadLetters
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.surroundings import Origin, Surroundings
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.crash import CrashPoints
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What an engine is started with.

    Attributes:
        file: its database; made if it is not there.
        origin: whose it is, and the how-manieth start.
        time: its clocks.
        bus: its broker.
        key: signs its receipts.
        policy: what it judges by.
        points: told at the named points.
    """

    file: Path
    origin: Origin
    time: Timepiece
    bus: DeviceBus
    key: Signer
    policy: Policy
    points: CrashPoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The parts that a drill speaks to.

    Attributes:
        store: the scratch database.
        around: time, and whose engine it is.
        devices: the virtual appliance, once it is admitted.
        ingest: takes in what it says; to be run.
        admission: takes commands in.
        desk: lends them out.
        dispatch: works them, by lane.
        letters: deals with dead letters.
        locks: tells who works what.
        commands: tells of commands.
    """

    store: Database
    around: Surroundings
    devices: Devices
    ingest: Ingest
    admission: Admission
    desk: Desk
    dispatch: Mapping[Tier, Dispatch]
    letters: DeadLetters
    locks: Locks
    commands: LocalCommands


Start = Callable[[Outside], Awaitable[Engine]]
"""Opens the database and joins the parts, as the agent does with its own."""
