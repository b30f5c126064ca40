"""What is to be written for a broker of our own: worked out, compared, and nothing done.

    configuration ──┐
    devices ────────┼──> files as they are to be ──> differences, obstacles, what it takes
    logins ─────────┘

The same configuration, devices and logins give the same files: a plan over what it has made is empty.
"""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from edgeagent import config as configurations
from edgeagent.config import Config
from edgeagent.contracts.broker_access import Rule
from edgeagent.contracts.reports.broker import BrokerPlanReport
from edgeagent.core.broker_rules import digest_of, rules_of
from edgeagent.core.profile.access import Access, access_before, clashes
from edgeagent.errors import MalformedError
from edgeagent.ids import Digest
from edgeagent.secret_files import secret_path
from edgeagent.setup.broker.conflicts import obstacles, others_options
from edgeagent.setup.broker.keeping import Kept, in_force, kept
from edgeagent.setup.broker.logins import Login, Logins, logins_text, passwords_text, read_logins
from edgeagent.setup.broker.passwords import hashed, verifies
from edgeagent.setup.broker.place import MARK, BrokerPlace
from edgeagent.setup.broker.venue import Venue, venue
from edgeagent.setup.broker.wish import Wish, wish
from edgeagent.setup.broker.writing import configuration
from edgeagent.values import dataclass

_CONFIGURATION: Final = "configuration"
_RULES: Final = "rules"
_PASSWORD: Final = "password"  # noqa: S105 - what a line tells of
_DATABASE: Final = "database"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlan:
    """What is to be written.

    Attributes:
        wish: how the broker is to be; None where the agent is a guest: ours goes.
        place: where mosquitto's configuration lies.
        before: our files as they are; None for one that is not there.
        after: as they are to be.
        access: what the login of each device may do.
        logins: that there are to be.
        obstacles: why nothing can be written.
        notes: what else to know.
        goes: the file of the agent's password, where that was made for this broker and nobody needs it now.
    """

    wish: Wish | None
    place: BrokerPlace
    before: Mapping[Path, str | None]
    after: Mapping[Path, str | None]
    access: Sequence[Access] = ()
    logins: Logins = field(default_factory=Logins)
    obstacles: Sequence[str] = ()
    notes: Sequence[str] = ()
    goes: Path | None = None

    @property
    def changed(self) -> list[Path]:
        """The files that would change, in the order in which to write them."""
        return [path for path in self.place.modes if self.before.get(path) != self.after.get(path)]

    @property
    def restart(self) -> bool:
        """Whether the broker has to be started anew: of listeners it reads at its start only."""
        return self._differs(_CONFIGURATION) or self.place.own in self.changed

    @property
    def reload(self) -> bool:
        """Whether it has to read its files anew, and that is enough."""
        written = {self.place.passwords, self.place.rules} & {*self.changed}
        return not self.restart and (self._differs(_RULES) or bool(written))

    def _differs(self, part: str) -> bool:
        """Whether the broker was told last of something else; that is noted when it has taken it.

        What a person has written since may be in force without a note: so a file that differs counts too.
        """
        told = (_told(texts.get(self.place.access) or "", part) for texts in (self.before, self.after))
        return next(told) != next(told)

    def report(self) -> BrokerPlanReport:
        """All of it, for people and programs."""
        return BrokerPlanReport(
            differences={str(path): self._difference(path) for path in self.changed},
            restart=self.restart,
            reload=self.reload,
            obstacles=list(self.obstacles),
            notes=list(self.notes),
        )

    def _difference(self, path: Path) -> str:
        before, after = (_shown(texts.get(path) or "") for texts in (self.before, self.after))
        names = ("/dev/null" if self.before.get(path) is None else str(path), str(path))
        return "\n".join(difflib.unified_diff(before, after, *names, lineterm=""))


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of a login.

    Attributes:
        add: one that is to be there.
        password: its password, or its new one.
        remove: the name of one that is to go.
    """

    add: Login | None = None
    password: str = ""
    remove: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rights:
    """Which logins there are to be, and what each may do.

    Attributes:
        logins: all of them.
        access: of these, and of admitted devices that have none yet.
        settled: names of logins that are not made for a device still to come.
        database: the line that tells in which database their devices are admitted; empty for none.
        wrong: why they cannot be so; a sentence each.
        notes: what else to know.
    """

    logins: Logins
    access: Sequence[Access]
    settled: Collection[str]
    database: str
    wrong: Sequence[str]
    notes: Sequence[str]


def plan_broker(config_path: Path, change: Change | None = None) -> BrokerPlan | None:
    """Work out what is to be written; None where the agent is a guest and nothing of ours is there.

    Args:
        config_path: the hub's configuration.
        change: of a login, on the way.

    Raises:
        ConfigurationError: the configuration or a file of ours is wrong or cannot be read.
        StorageError: the database cannot be read.
    """
    # What is written is read from elsewhere: by mosquitto, and when the next word is typed.
    config_path = config_path.absolute()
    config = configurations.load(config_path)
    wanted = wish(config, config_path)
    if wanted is None:
        return plan_leaving(config, config_path, BrokerPlace())
    before = {path: wanted.place.read(path) for path in wanted.place.modes}
    return _plan(wanted, before, venue(config, config_path), change or Change())


def plan_leaving(config: Config, config_path: Path, place: BrokerPlace) -> BrokerPlan | None:
    """Work out what goes where the agent is a guest again; None where nothing of ours is there.

    Raises:
        ConfigurationError: a file of ours cannot be read.
    """
    before = {path: place.read(path) for path in place.modes}
    if not any(before.values()):
        return None
    goes, still = _made(before[place.access]), config.broker.password_file
    if goes is not None and not goes.exists():
        goes = None
    if goes is not None and still is not None:
        # The guest may go on with it, at the same broker or another.
        named = {secret_path(config_path, still), config_path.parent / "credentials" / still}
        goes = None if goes in named else goes
    return BrokerPlan(
        wish=None,
        place=place,
        before=before,
        after=dict.fromkeys(before),
        notes=[] if goes is None else [f"the agent's password for it goes too: {goes}"],
        goes=goes,
    )


def _plan(wanted: Wish, before: Mapping[Path, str | None], devices: Venue, change: Change) -> BrokerPlan:
    place = wanted.place
    rights = _rights(_changed(read_logins(place), change), before, devices, place)
    logins, everything = rights.logins, rights.access
    hashes = {name: logins.hashes[name] for name in logins.known if name in logins.hashes}
    own = read_logins(place).hashes.get(wanted.agent, "")
    hashes[wanted.agent] = own if verifies(wanted.password, own) else hashed(wanted.password)
    logins = replace(logins, hashes=hashes)
    others = others_options(place) or []
    watched = {*devices.heard, *devices.commanded}
    names = {access.login for access in everything} | {*logins.known}
    clash = (
        [f"the login {wanted.agent} is the agent's: no device may have it"] if wanted.agent in names else []
    )
    after: dict[Path, str | None] = {
        place.passwords: passwords_text(logins),
        place.rules: "\n".join([MARK, *rules_of(wanted.agent, watched, everything), ""]),
        place.logins: logins_text(logins),
        place.own: configuration(wanted, others),
    }
    rules = _access_lines(everything, rights.settled, hashes)
    made = wanted.password_file or _made(before.get(place.access))
    ours = [*([] if made is None else [f"# {_PASSWORD} {made}"]), *filter(None, [rights.database])]
    after[place.access] = "\n".join([MARK, *_in_force(place, after), *ours, *rules, ""])
    return BrokerPlan(
        wish=wanted,
        place=place,
        before=before,
        after=after,
        access=everything,
        logins=logins,
        obstacles=[
            *obstacles(place, (wanted.agent_port, wanted.port)),
            *clash,
            *clashes(everything),
            *rights.wrong,
        ],
        notes=[*rights.notes, *_of_password(wanted)],
    )


def _rights(asked: Logins, before: Mapping[Path, str | None], devices: Venue, place: BrokerPlace) -> _Rights:
    rules, told = (before.get(path) or "" for path in (place.rules, place.access))
    admitted, left_out = devices.access()
    living = {access.login for access in admitted}
    noted, present = _told(told, _DATABASE), "" if devices.epoch is None else f"# {_DATABASE} {devices.epoch}"
    keep = kept(asked.known, living, left_out, is_same=bool(present) and noted == present)
    logins, gone = _settled(asked, admitted, keep)
    as_before = [in_force(logins.known[name], rules, told) for name in sorted(keep.names)]
    staying = [access for access in as_before if access is not None]
    expected, wrong = _expected(logins, [*admitted, *staying], devices, keep)
    can_come = logins.known.keys() & logins.hashes.keys()
    without = sorted(access.device for access in admitted if access.login not in can_come)
    settled = {name for name, login in logins.known.items() if not login.expected}
    return _Rights(
        logins=logins,
        access=[*admitted, *staying, *expected],
        settled=living | settled,
        # Of no use before a device has come; and as long as one is missed, it is missed from there.
        database=present if settled and present and not keep.lost else noted,
        wrong=wrong,
        notes=[
            *(each.why for each in left_out),
            *keep.notes,
            *(f"the login {name} goes: its device is not admitted any more" for name in gone),
            *(f"{name} has no login: edgeagent broker logins add {name}" for name in without),
        ],
    )


def _of_password(wanted: Wish) -> list[str]:
    if wanted.password_file is None:
        return []
    return [f"a password for the agent is made, in {wanted.password_file}: start the agent anew after it"]


def _changed(logins: Logins, change: Change) -> Logins:
    known, hashes = dict(logins.known), dict(logins.hashes)
    if change.add is not None:
        known[change.add.login] = change.add
        hashes[change.add.login] = hashed(change.password)
    if change.remove is not None:
        known.pop(change.remove, None)
        hashes.pop(change.remove, None)
    return Logins(known, hashes)


def _settled(logins: Logins, admitted: Sequence[Access], keep: Kept) -> tuple[Logins, list[str]]:
    """The logins that stay, and the names of those that go with their device."""
    living = {access.login for access in admitted} | keep.names
    known = {
        name: login.model_copy(update={"expected": False})
        if login.device in _devices(admitted, name)
        else login
        for name, login in logins.known.items()
        if login.expected or name in living
    }
    return Logins(known, logins.hashes), sorted(logins.known.keys() - known.keys())


def _devices(admitted: Sequence[Access], login: str) -> set[str]:
    return {access.device for access in admitted if access.login == login}


def _expected(
    logins: Logins, known: Sequence[Access], devices: Venue, keep: Kept
) -> tuple[list[Access], list[str]]:
    """What the logins may do of which that is not known, as of devices still to come; and what is wrong."""
    found, wrong = [], []
    for name in sorted(logins.known.keys() - {access.login for access in known}):
        try:
            found.append(access_for(logins.known[name], devices))
        except MalformedError as why:
            # Of one that stays it is told there what ends it; taking it away is the last of it.
            way = "plan" if name in keep.names else f"logins remove {name}"
            wrong.append(f"the login {name}: {why}; edgeagent broker {way}")
    return found, wrong


def access_for(login: Login, devices: Venue) -> Access:
    """What a login may do before its device is admitted.

    Raises:
        MalformedError: there is no such profile, or its topics need a parameter that is missing or wrong.
    """
    profile = devices.profiles.get(login.profile)
    if profile is None:
        raise MalformedError(f"there is no profile {login.profile!r}")
    return access_before(profile, login.device, login.parameters, devices.gateway)


def _in_force(place: BrokerPlace, texts: Mapping[Path, str | None]) -> list[str]:
    """Of what the broker is told, by digest."""
    rules = f"{texts[place.passwords]}{texts[place.rules]}"
    return [
        f"# {_CONFIGURATION} {sha256((texts[place.own] or '').encode()).hexdigest()}",
        f"# {_RULES} {sha256(rules.encode()).hexdigest()}",
    ]


def _made(access: str | None) -> Path | None:
    """The file of the agent's password, if that was made by us: whoever made it takes it away."""
    line = _told(access or "", _PASSWORD)
    return Path(line.removeprefix(f"# {_PASSWORD} ")) if line else None


def _told(text: str, part: str) -> str:
    """The line of one of these; empty where none is told."""
    found = [line for line in text.splitlines() if line.startswith(f"# {part} ")]
    return found[0] if found else ""


def _access_lines(
    everything: Sequence[Access], living: Collection[str], hashes: Mapping[str, str]
) -> list[str]:
    """Whose rules these are: for the agent, which may not read them. See ``contracts.broker_access``."""
    rows = {
        Rule(
            digest=Digest(digest_of(access)),
            login=access.login,
            has_password=access.login in hashes,
            is_expected=access.login not in living,
        ).line
        for access in everything
    }
    return sorted(rows)


def _shown(text: str) -> list[str]:
    """The lines of a file, with what is secret told apart only."""
    return [
        re.sub(r":\$7\$.*", lambda found: f":(hidden, {sha256(found[0].encode()).hexdigest()[:8]})", line)
        for line in text.splitlines()
    ]
