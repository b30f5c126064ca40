"""Putting a plan in force: tried first, then written, and taken back where the broker does not take it.

    obstacles? ──> tried ──> written ──> reloaded or restarted ──> the agent comes in ──> done
                                │ │                                    │ no
                                └─┴────────── earlier files back <─────┘

What the broker reads at its start only is written when it may be started anew, else nothing is: files that
lie there and wait for the next reboot would surprise somebody. What is in force is noted last. So who was cut
off anywhere applies again and has it all; a broker that is started in between has names without rights at
worst.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edgeagent.adapters.mqtt.probe import takes
from edgeagent.clock import Clock, ProvenClock, SystemTime
from edgeagent.contracts.reports.broker import BrokerAppliedReport
from edgeagent.errors import ConfigurationError, RejectedError, TransientError
from edgeagent.setup.broker.planning import BrokerPlan
from edgeagent.setup.broker.service import BrokerService
from edgeagent.setup.broker.trying import settings_of, try_plan
from edgeagent.store.whole_file import write_whole

_PATIENCE: Final = 15.0
_STEP: Final = 0.1


def apply_plan(plan: BrokerPlan, service: BrokerService, *, restart: bool) -> BrokerAppliedReport:
    """Put a plan in force.

    Args:
        plan: what is to be written.
        service: the broker that runs.
        restart: whether it may be started anew, which cuts its clients off for a moment.

    Raises:
        RejectedError: something stands in the way, the broker does not take it, or it would have to be
            started anew; all is as it was.
        TransientError: it could not be tried.
        ConfigurationError: the disk does not take it, or we may not write there.
    """
    if plan.obstacles:
        raise RejectedError("; ".join(plan.obstacles))
    if not plan.changed:
        return _report(plan, "nothing")
    if plan.restart and not restart:
        raise RejectedError(
            "mosquitto has to be started anew for this, which cuts its clients off for a moment: --restart"
        )
    clock = ProvenClock(SystemTime())
    try_plan(plan, clock)
    with plan.place.alone():
        if any(plan.place.read(path) != text for path, text in plan.before.items()):
            raise RejectedError("somebody else has changed the broker's files meanwhile: type it again")
        _put(plan, service, clock)
    return _report(plan, "restarted" if plan.restart else "reloaded" if plan.reload else "nothing")


def _report(plan: BrokerPlan, done: str) -> BrokerAppliedReport:
    return BrokerAppliedReport(
        written=[str(path) for path in plan.changed if plan.after[path] is not None],
        removed=[
            *(str(path) for path in plan.changed if plan.after[path] is None),
            *([] if plan.goes is None else [str(plan.goes)]),
        ],
        done=done,
        notes=list(plan.notes),
    )


def _put(plan: BrokerPlan, service: BrokerService, clock: Clock) -> None:
    """Write, tell the broker, and see that it goes on; else take it back."""
    tell: Callable[[], None] = service.restart if plan.restart else service.reload
    made = None if plan.wish is None else plan.wish.password_file
    try:
        if plan.wish is not None and made is not None:
            _write_password(made, plan.wish.password)
        for path in plan.changed:
            if path != plan.place.access:
                plan.place.write(path, plan.after[path])
        if plan.restart or plan.reload:
            tell()
            _see(plan, clock)
        if plan.goes is not None:
            # Before what tells of it.
            _remove(plan.goes)
        if plan.place.access in plan.changed:
            plan.place.write(plan.place.access, plan.after[plan.place.access])
    except (ConfigurationError, TransientError, RejectedError) as why:
        for path in reversed(plan.changed):
            plan.place.write(path, plan.before.get(path))
        if made is not None:
            made.unlink(missing_ok=True)
        raise RejectedError(f"{why}; {_back(plan, tell)}") from why


def _back(plan: BrokerPlan, tell: Callable[[], None]) -> str:
    """Have the broker take the earlier files, and say how that went."""
    if plan.restart or plan.reload:
        try:
            tell()
        except TransientError as why:
            return f"the earlier files are back, but {why}: journalctl -u mosquitto -n 20"
    return "the earlier files are back, and in force"


def _see(plan: BrokerPlan, clock: Clock) -> None:
    """Wait until the broker lets the agent in.

    Raises:
        RejectedError: it does not, or anybody else as well.
    """
    wanted = plan.wish
    if wanted is None:
        return
    agent = settings_of(wanted.agent_port, wanted.agent, wanted.password)
    stranger = settings_of(wanted.agent_port, None, None)
    end = time.monotonic() + _PATIENCE
    while not asyncio.run(takes(agent, clock)):
        if time.monotonic() > end:
            raise RejectedError("mosquitto does not let the agent in with it")
        time.sleep(_STEP)
    if asyncio.run(takes(stranger, clock)):
        raise RejectedError("mosquitto lets in who has no name, with it: something else configures it too")


def _remove(path: Path) -> None:
    """Remove a password that is of no use any more.

    Raises:
        ConfigurationError: we may not.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as why:
        raise ConfigurationError(f"cannot remove {path}: {why.strerror}") from why


def _write_password(path: Path, password: str) -> None:
    """Write the agent's password for the first time, for root alone.

    Raises:
        ConfigurationError: we may not.
    """
    try:
        write_whole(path, f"{password}\n".encode(), mode=0o600)
    except OSError as why:
        raise ConfigurationError(f"cannot write {path}: {why.strerror}") from why
