"""Logins of devices at a broker of our own: made, renewed, taken away; each in force at once.

mosquitto reads passwords and rules anew while its clients stay. A password is told once, by whoever makes it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from edgeagent import config as configurations
from edgeagent.contracts.reports.broker import LoginReport
from edgeagent.core.profile.access import Access, access_of
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.ids import DeviceId
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.logins import Login
from edgeagent.setup.broker.passwords import new_password
from edgeagent.setup.broker.planning import BrokerPlan, Change, access_for, plan_broker
from edgeagent.setup.broker.service import BrokerService
from edgeagent.setup.broker.venue import Venue, venue


def all_logins(config_path: Path) -> list[LoginReport]:
    """Every login of a device, by name.

    Raises:
        RejectedError: the broker is not ours.
    """
    plan = _plan(config_path)
    return [_report(plan.logins.known[name], plan.access) for name in sorted(plan.logins.known)]


def add_login(
    config_path: Path,
    service: BrokerService,
    device: DeviceId,
    profile: str | None,
    parameters: Mapping[str, JsonValue],
) -> LoginReport:
    """Make the login of a device, and say its password.

    Args:
        config_path: the hub's configuration.
        service: the broker that runs.
        device: whose; for a bridge, a name for it.
        profile: of its family; not needed of one that is admitted.
        parameters: of the profile.

    Raises:
        RejectedError: it has one, its topics are not known, or what ``apply_plan`` raises.
    """
    plan = _plan(config_path)
    login = _login_of(device, profile, parameters, _venue(config_path))
    if login.login in plan.logins.hashes:
        raise RejectedError(f"there is a login {login.login}: edgeagent broker logins rotate {login.login}")
    return _in_force(config_path, service, login)


def rotate_login(config_path: Path, service: BrokerService, name: str) -> LoginReport:
    """Give a login another password, and say it.

    Raises:
        RejectedError: there is none of that name, or what ``apply_plan`` raises.
    """
    return _in_force(config_path, service, _known(_plan(config_path), name))


def remove_login(config_path: Path, service: BrokerService, name: str) -> LoginReport:
    """Take a login away. Who is connected with it stays until it comes again.

    Raises:
        RejectedError: there is none of that name, or what ``apply_plan`` raises.
    """
    before = _plan(config_path)
    login = _known(before, name)
    _apply(_plan(config_path, Change(remove=name)), service)
    return _report(login, before.access)


def _in_force(config_path: Path, service: BrokerService, login: Login) -> LoginReport:
    password = new_password()
    plan = _plan(config_path, Change(add=login, password=password))
    _apply(plan, service)
    return _report(login, plan.access, password)


def _apply(plan: BrokerPlan, service: BrokerService) -> None:
    """Put it in force, if the broker has ours already.

    Raises:
        RejectedError: it has not, or as ``apply_plan``.
    """
    if plan.restart:
        raise RejectedError("the broker has other files of ours first: edgeagent broker apply --restart")
    apply_plan(plan, service, restart=False)


def _plan(config_path: Path, change: Change | None = None) -> BrokerPlan:
    plan = plan_broker(config_path, change)
    if plan is None or plan.wish is None:
        raise RejectedError("the agent is a guest at its broker: whoever runs it makes its logins")
    return plan


def _venue(config_path: Path) -> Venue:
    return venue(configurations.load(config_path), config_path)


def _known(plan: BrokerPlan, name: str) -> Login:
    login = plan.logins.known.get(name)
    if login is None:
        raise UnknownError(f"there is no login {name!r}")
    return login


def _login_of(
    device: DeviceId, profile: str | None, parameters: Mapping[str, JsonValue], devices: Venue
) -> Login:
    """What is kept of a login.

    Raises:
        RejectedError: the topics of its device are not known.
    """
    for admitted in devices.devices:
        if admitted.device == device:
            access = access_of(admitted)
            return Login(login=access.login, device=device, profile=admitted.profile.id, expected=False)
    if profile is None:
        raise RejectedError(f"{device} is not admitted: name its --profile, and --set what its topics need")
    wanted = Login(login=device, device=device, profile=profile, parameters=dict(parameters))
    return wanted.model_copy(update={"login": access_for(wanted, devices).login})


def _report(login: Login, all_access: Sequence[Access], password: str | None = None) -> LoginReport:
    return LoginReport(
        login=login.login,
        family=login.profile,
        devices=sorted({access.device for access in all_access if access.login == login.login}),
        password=password,
    )
