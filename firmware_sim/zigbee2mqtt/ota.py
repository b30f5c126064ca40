"""``bridge/request/device/ota_update/…``: how the bridge updates the devices behind it.

    check              is there a newer image? Looks into it, at ``url`` or where the maker has it
    update             fetch the image, send it to the device, let it boot
    update/downgrade   the same, to an older one
    update/abort       end the one that runs
    schedule           wait until the device asks by itself; unschedule takes it back

    idle --check--> available --update--> updating --> idle
      |                 |  ^                 +--failed, aborted--> available
      +--schedule-------+--+--scheduled--the device asks--> updating

What bites:

*   One at a time in the whole network; a second one is an error.
*   ``ok`` comes when the device has booted whatever it boots: the old firmware too, when the new one did not
    come up. Only ``to`` of the answer, and the version that the device tells, say which.
*   A restart of the bridge forgets the update: the state is ``idle`` again and *nobody is ever answered*.
*   A device that falls silent keeps the network busy until its time is over, or for good when it only stalls.

*Assumed*: the wording of the errors, but for the one about an update that runs; that ``url`` is taken by
``check`` and ``schedule`` too; that an abort answers both requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

from firmware_sim.faults import Kind
from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Timer, Timing, Wanted
from firmware_sim.image import BadImageError
from firmware_sim.zigbee2mqtt.api import Request, RequestError
from firmware_sim.zigbee2mqtt.end_device import EndDevice
from firmware_sim.zigbee2mqtt.image import Header, header
from firmware_sim.zigbee2mqtt.transfer import Transfer

PREFIX: Final = "device/ota_update/"
BUSY: Final = "OTA update or check for update already in progress"
"""As it stands in the answer."""
_AGENT: Final = "axios/1.7.9"
_MOST: Final = 64 * 2**20
_STEP: Final = 5


class Standing(StrEnum):
    """Where a device stands; see the module's picture."""

    IDLE = "idle"
    AVAILABLE = "available"
    UPDATING = "updating"
    SCHEDULED = "scheduled"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the bridge knows of a device's updates."""

    standing: Standing = Standing.IDLE
    latest: int | None = None
    progress: int = 0
    remaining: timedelta = timedelta(0)


class Network(Protocol):
    """The bridge around it."""

    def device(self, name: str) -> EndDevice:
        """The device of that name or address.

        Raises:
            RequestError: there is none.
        """
        ...

    def tell(self, device: EndDevice) -> None:
        """Publish all that is known of a device, and whether it can be reached."""
        ...

    def respond(self, asked: Request, data: Mapping[str, Json], error: str | None = None) -> None:
        """Answer a request."""
        ...


@dataclass(slots=True)
class _Job:
    """The one update or check that runs."""

    asked: Request
    device: EndDevice
    check: bool
    older: bool
    fetching: Timer | None = None
    transfer: Transfer | None = None
    before: int = 0
    answered: bool = False


class Ota:
    """See the module's docstring.

    Args:
        board: of the bridge.
        timing: how long things take.
        network: the bridge around it.
    """

    def __init__(self, board: Board, timing: Timing, network: Network) -> None:
        self._board = board
        self._timing = timing
        self._network = network
        self._known: dict[str, _Known] = {}
        self._scheduled: dict[str, Request] = {}
        self._job: _Job | None = None

    def boot(self) -> None:
        """Forget everything without a word; what is scheduled stands in the bridge's database."""
        self._job = None
        self._known = {ieee: _Known(Standing.SCHEDULED) for ieee in self._scheduled}

    def told(self, device: EndDevice) -> dict[str, Json]:
        """``update`` in what is told of a device."""
        known = self._known.get(device.ieee, _Known())
        told: dict[str, Json] = {
            "state": known.standing.value,
            "installed_version": device.version,
            "latest_version": device.version if known.latest is None else known.latest,
        }
        if known.standing is Standing.UPDATING:
            told |= {"progress": known.progress, "remaining": round(known.remaining.total_seconds())}
        return told

    def asks(self, device: EndDevice) -> None:
        """The device is awake, and asks whether there is something for it."""
        if device.ieee in self._scheduled and self._job is None and device.reachable:
            asked = self._scheduled.pop(device.ieee)
            self._begin(_Job(asked, device, check=False, older=False, answered=True))

    def take(self, asked: Request) -> None:
        """Take a request.

        Raises:
            RequestError: it is not carried out.
        """
        device = self._network.device(asked.text("id"))
        match asked.name.removeprefix(PREFIX):
            case "check":
                self._begin(_Job(asked, device, check=True, older=False))
            case "update":
                self._begin(_Job(asked, device, check=False, older=False))
            case "update/downgrade":
                self._begin(_Job(asked, device, check=False, older=True))
            case "update/abort":
                self._abort(asked, device)
            case "schedule":
                self._source(asked, device)
                self._scheduled[device.ieee] = asked
                self._stands(device, Standing.SCHEDULED)
                self._network.respond(asked, {"id": asked.text("id")})
            case "unschedule":
                self._scheduled.pop(device.ieee, None)
                self._stands(device, Standing.IDLE)
                self._network.respond(asked, {"id": asked.text("id")})
            case _:
                raise RequestError(f"Unknown request '{asked.name}'")

    # What the transfer calls: ``transfer.Follower``.

    def progressed(self, percent: int, remaining: timedelta) -> None:
        """Tell it in steps, and whenever it goes back."""
        job = self._running()
        known = self._known[job.device.ieee]
        if percent >= known.progress + _STEP or percent < known.progress:
            self._known[job.device.ieee] = replace(known, progress=percent, remaining=remaining)
            self._network.tell(job.device)

    def ended(self, why: str) -> None:
        """Say that it failed, or let the device boot."""
        job = self._running()
        if why:
            self._fail(f"Update of '{job.device.name}' failed ({why})")
        else:
            job.device.restart(self._timing.boot, lambda: self._booted(job))

    def moved(self, device: EndDevice) -> None:
        """Tell whether it can be reached; it may come back when the update is long over."""
        self._network.tell(device)

    def _running(self) -> _Job:
        assert self._job is not None, "no update runs"  # noqa: S101 - a transfer is cancelled with its job
        return self._job

    def _source(self, asked: Request, device: EndDevice) -> str:
        url = asked.url() or device.paired.image
        if not url:
            raise RequestError(f"Update of '{device.name}' failed (No image currently available)")
        return url

    def _begin(self, job: _Job) -> None:
        if self._job is not None:
            raise RequestError(BUSY)
        url = self._source(job.asked, job.device)
        self._job = job
        job.before = job.device.version
        wanted = Wanted(url=url, part="bridge", update=job.device.flash.updates + 1, agent=_AGENT)
        job.fetching = self._board.fetch(
            wanted, _Collected(lambda image, why: self._fetched(job, image, why))
        )
        if not job.check:
            job.device.flash.updates += 1
            self._stands(job.device, Standing.UPDATING)
            if self._befalls_early(job):
                self._answer_ok(job)

    def _befalls_early(self, job: _Job) -> bool:
        flash = job.device.flash
        return self._board.befalls(Kind.EARLY_SUCCESS, flash.part, update=flash.updates) is not None

    def _fetched(self, job: _Job, image: bytes, why: str) -> None:
        if self._job is not job:
            return
        try:
            if why:
                raise BadImageError(why)  # noqa: TRY301 - the one way out for what is no image
            found = header(image)
            if found.kind != job.device.born.kind:
                raise BadImageError("No image currently available")  # noqa: TRY301 - as above
        except BadImageError as wrong:
            self._fail(f"Update of '{job.device.name}' failed ({wrong})")
            return
        if job.check:
            self._checked(job, found)
        elif len(image) > job.device.flash.room:
            self._fail(f"Update of '{job.device.name}' failed (INSUFFICIENT_SPACE)")
        elif not _serves(job, found):
            self._fail(f"Update of '{job.device.name}' failed (No image currently available)")
        else:
            known = self._known[job.device.ieee]
            self._known[job.device.ieee] = replace(known, latest=found.version)
            job.transfer = Transfer(self._board, job.device, image, self._timing, self)

    def _checked(self, job: _Job, found: Header) -> None:
        self._job = None
        available = _serves(job, found)
        self._stands(job.device, Standing.AVAILABLE if available else Standing.IDLE, found.version)
        self._network.respond(
            job.asked,
            {
                "id": job.asked.text("id"),
                "update_available": available,
                "downgrade": found.version < job.before,
                "source": self._source(job.asked, job.device),
            },
        )

    def _booted(self, job: _Job) -> None:
        self._network.tell(job.device)
        if self._job is not job:
            return  # it boots again, of its own
        if job.device.gone:
            self._fail(f"Update of '{job.device.name}' failed (Device did not rejoin)")
            return
        self._job = None
        left = (self._known[job.device.ieee].latest or 0) > job.device.version
        self._stands(job.device, Standing.AVAILABLE if left else Standing.IDLE)
        self._answer_ok(job)

    def _answer_ok(self, job: _Job) -> None:
        if job.answered:
            return
        job.answered = True
        after = job.device.version
        told: dict[str, Json] = {
            "id": job.asked.text("id"),
            "from": _version(job.before),
            "to": _version(after),
        }
        self._network.respond(job.asked, told)

    def _abort(self, asked: Request, device: EndDevice) -> None:
        job = self._job
        if job is None or job.device is not device or job.check:
            raise RequestError(f"No update of '{device.name}' is in progress")
        self._network.respond(asked, {"id": asked.text("id")})
        self._fail(f"Update of '{device.name}' failed (Aborted)")

    def _fail(self, error: str) -> None:
        job = self._running()
        self._job = None
        if job.fetching is not None:
            job.fetching.cancel()
        if job.transfer is not None:
            job.transfer.cancel()
        self._stands(job.device, Standing.IDLE if job.check else Standing.AVAILABLE)
        if not job.answered:
            self._network.respond(job.asked, {}, error)

    def _stands(self, device: EndDevice, standing: Standing, latest: int | None = None) -> None:
        known = self._known.get(device.ieee, _Known())
        self._known[device.ieee] = _Known(standing, known.latest if latest is None else latest)
        self._network.tell(device)


class _Collected:
    """Takes an image into memory, as the bridge does.

    Args:
        done: gets it, and why it is not all.
    """

    def __init__(self, done: Callable[[bytes, str], None]) -> None:
        self._done = done
        self._data = bytearray()

    def begun(self, begin: int, length: int | None) -> None:
        """All from the beginning."""

    def piece(self, data: bytes) -> None:
        """Keep it, up to more than any device has."""
        if len(self._data) < _MOST:
            self._data += data

    def ended(self, why: str) -> None:
        """Hand it over."""
        self._done(bytes(self._data), why)


def _serves(job: _Job, found: Header) -> bool:
    return found.version < job.before if job.older else found.version > job.before


def _version(number: int) -> dict[str, Json]:
    return {"file_version": number, "software_build_id": f"1.{number}", "date_code": "20260101"}
