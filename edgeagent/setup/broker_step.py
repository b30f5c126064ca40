"""The broker's part of a set-up: a guest by default, which changes nothing, or the hub's own."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.contracts.reports.setup import Came, SetupStep
from edgeagent.errors import RejectedError
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.planning import BrokerPlan, plan_broker
from edgeagent.setup.broker.service import BrokerService, SystemdService
from edgeagent.setup.broker.wish import config_lines

Wished = Literal["guest", "managed"]
"""What a broker may be to the hub."""

_NAME: Final = "broker"
_GUEST: Final = "a guest: nothing of mosquitto is changed; edgeagent broker check says what is needed there"


def refuse_in_vain(config: Path, wished: Wished | None, *, is_new: bool) -> None:
    """See that nothing stands in the way of what is asked for, before a code is used and a file written.

    Args:
        config: the hub's configuration, which may not be there yet.
        wished: what was asked for.
        is_new: whether another configuration takes the place of one that is there.

    Raises:
        RejectedError: something does.
    """
    if wished != "managed":
        return
    plan = plan_broker(config) if config.exists() and not is_new else _from_lines()
    if plan is not None and plan.obstacles:
        raise RejectedError(f"{'; '.join(plan.obstacles)}; nothing was done")


def see_to_broker(
    config: Path,
    wished: Wished | None,
    *,
    is_dry: bool,
    is_new: bool = False,
    service: BrokerService | None = None,
) -> SetupStep:
    """Leave the broker as it is, or give it its configuration.

    Args:
        config: the hub's configuration; in a dry run it may not be there yet.
        wished: what was asked for; None for what the configuration says.
        is_dry: whether nothing is to be done.
        is_new: whether another configuration takes the place of one that is there.
        service: the broker that runs, if it is not systemd's.

    Raises:
        ConfigurationError: a file is wrong, or we may not write there.
        RejectedError: something stands in the way, or mosquitto does not take it; all is as it was.
        TransientError: it could not be tried.
    """
    # In a dry run the new one is not there to be read.
    is_there = config.exists() and not (is_dry and is_new)
    plan = plan_broker(config) if is_there else None
    if plan is None and wished == "managed":
        if is_there:
            words = f"write into {config}, and type it again:\n{config_lines()}"
            return SetupStep(name=_NAME, came=Came.LEFT, words=words)
        plan = _from_lines()
    if plan is None:
        return SetupStep(name=_NAME, came=Came.KEPT, words=_GUEST)
    if plan.wish is None or wished == "guest":
        came = "and of [broker] what came with it (port, username, password_file)"
        first = "" if plan.wish is None else f"take [broker.managed] out of {config}, {came}, then "
        words = f"{first}edgeagent broker apply --restart takes away what was written for mosquitto"
        return SetupStep(name=_NAME, came=Came.LEFT, words=words)
    if not plan.changed:
        return SetupStep(name=_NAME, came=Came.KEPT, words=f"{plan.place.own}, as before")
    if is_dry:
        words = "\n".join([*plan.obstacles, *plan.report().differences.values()])
        return SetupStep(name=_NAME, came=Came.WOULD, words=words)
    done = apply_plan(plan, service or SystemdService(), restart=True)
    words = (
        f"{plan.place.own}; mosquitto is {done.done}; a login for each device: edgeagent broker logins add"
    )
    return SetupStep(name=_NAME, came=Came.DONE, words=words)


def left_undone(steps: Iterable[SetupStep]) -> list[Check]:
    """That the broker is not what was asked for: a script has to notice."""
    summary = "is not yet what --broker asks for: see the step broker"
    return [
        Check(name="broker-step", level=Level.WARNING, summary=summary)
        for step in steps
        if step.name == _NAME and step.came is Came.LEFT
    ]


def _from_lines() -> BrokerPlan | None:
    """What the configuration would come to that is still to be written."""
    with TemporaryDirectory(prefix="edgeagent-setup-") as folder:
        config = Path(folder) / "config.toml"
        config.write_text(f'[hub]\nid = "hub"\n{config_lines()}', "utf-8")
        return plan_broker(config)
