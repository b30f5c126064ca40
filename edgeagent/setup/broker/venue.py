"""The devices of the hub, as they bear on its broker: read from the database, also with the agent down."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeagent import settings
from edgeagent.config import Config
from edgeagent.contracts.floormark import FloorMark
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.epochs import why_new
from edgeagent.core.profile.access import Access, access_of
from edgeagent.core.profile.compile import CompiledDevice, Gateway, compile_device
from edgeagent.core.profile.match import Matcher
from edgeagent.errors import ConfigurationError, RejectedError
from edgeagent.ids import DeviceId, Epoch
from edgeagent.store import devices as rows
from edgeagent.store.database import Snapshot
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.floormarks import found_beside
from edgeagent.store.reading import read_only
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A device that is admitted, and cannot be spoken with.

    Attributes:
        device: which one.
        profile: the id of its profile.
        why: a sentence.
    """

    device: DeviceId
    profile: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Venue:
    """What is known of the devices.

    Attributes:
        gateway: the hub as devices address it.
        profiles: of all families, by id.
        devices: those that are admitted.
        left_out: those that are admitted too, and are not among those.
        epoch: the life that the database is in; None where there is none, or a new one begins at its start.
    """

    gateway: Gateway
    profiles: Mapping[str, DeviceProfile]
    devices: Sequence[CompiledDevice]
    left_out: Sequence[LeftOut]
    epoch: Epoch | None

    @property
    def heard(self) -> list[str]:
        """Filters that the agent hears."""
        own = {wanted.filter for device in self.devices for wanted in device.subscriptions}
        announced = {wanted.filter for wanted in Matcher(list(self.profiles.values())).subscriptions}
        return sorted({*own, *announced})

    @property
    def commanded(self) -> list[str]:
        """Filters on which devices take commands."""
        return sorted({each for device in self.devices for each in device.command_topics})

    def access(self) -> tuple[list[Access], list[LeftOut]]:
        """What the login of each may do; and which have no place in a list of rules."""
        found, wrong = [], list(self.left_out)
        for device in self.devices:
            try:
                found.append(access_of(device))
            except RejectedError as why:
                wrong.append(LeftOut(device.device, device.profile.id, str(why)))
        return found, wrong


def venue(config: Config, path: Path) -> Venue:
    """Read them; before the first start of the agent there are none.

    Raises:
        ConfigurationError: a profile is wrong, or the database may not be read.
        StorageError: the database cannot be read.
    """
    profiles, gateway = settings.profiles(config, path), Gateway(config.hub.id)
    devices, left_out, epoch = [], [], None
    if _is_there(config.database):
        mark = FloorFile(config.hub.state_dir, config.hub.id).read()
        with read_only(config.database) as db:
            admitted, epoch = rows.load(db), _epoch(db, mark)
        for row in admitted:
            try:
                devices.append(_compiled(row, profiles, gateway))
            except RejectedError as why:
                left_out.append(LeftOut(row.device, row.profile, f"{row.device} is left out: {why}"))
    return Venue(gateway=gateway, profiles=profiles, devices=devices, left_out=left_out, epoch=epoch)


def _epoch(db: Snapshot, mark: FloorMark | None) -> Epoch | None:
    found = found_beside(db, mark)
    return found.epoch if why_new(found, mark, is_damaged=False) is None else None


def _is_there(database: Path) -> bool:
    try:
        return database.exists()
    except OSError as why:  # we may not even look
        raise ConfigurationError(f"cannot read {database}: {why.strerror}") from why


def _compiled(row: rows.Admitted, profiles: Mapping[str, DeviceProfile], gateway: Gateway) -> CompiledDevice:
    known = profiles.get(row.profile)
    if known is None:
        raise RejectedError(f"there is no profile {row.profile!r}")
    return compile_device(known, row.device, row.parameters, gateway=gateway)
