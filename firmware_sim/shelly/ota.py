"""``Shelly.Update`` and what is told of it (shelly-api-docs, Components: Sys, Shelly).

    Shelly.Update {"url": …} or {"stage": "stable" | "beta"}    null: it has begun
    NotifyEvent ota_begin       "Waiting for data"
    NotifyEvent ota_progress    "Got data", progress_percent
    NotifyEvent ota_success     "Update applied, rebooting", before the reboot and before anything is known
    NotifyEvent ota_error       why

What bites:

*   ``ota_success`` says that the image was written, and nothing of whether it boots.
*   Events are notifications: with ``rpc_ntf`` off there are none.
*   It takes only what its maker has signed for its model and hardware revision.

*Assumed*: a second request is answered with -109; a cut download is taken up by ``Range`` where it was cut,
three times; progress is told in steps of ten per cent at least.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Timing
from firmware_sim.flash import Flash
from firmware_sim.shelly.image import taken
from firmware_sim.shelly.rpc import Parameters, failed_precondition, invalid_argument, unavailable
from firmware_sim.shelly.settings import Identity, ShellySettings
from firmware_sim.updating import Update

_AGENT: Final = "Mongoose/6.18"
_LONGEST_URL: Final = 1024
_RESUMES: Final = 3
_STEP: Final = 10
# What a try again may mend.
_CUT: Final = ("connection lost", "ClientPayloadError", "timed out")


class Ota:
    """The update of one device.

    Args:
        board: the hardware.
        flash: what it writes to.
        identity: what it takes images for.
        settings: its owner's.
        timing: how long things take.
        tell: says an event of the device.
    """

    def __init__(
        self,
        board: Board,
        flash: Flash,
        identity: Identity,
        settings: ShellySettings,
        timing: Timing,
        tell: Callable[[Mapping[str, Json]], None],
    ) -> None:
        self._board = board
        self._timing = timing
        self._settings = settings
        self._tell = tell
        check = partial(taken, maker=board.maker, app=identity.app, hardware=settings.hardware)
        self._update = Update(board, flash, check, self)
        self._running = False
        self._url = ""
        self._resumes = 0
        self._told = 0

    def boot(self) -> None:
        """Forget it."""
        self._update.cancel()
        self._running = False

    def check(self) -> Json:
        """``Shelly.CheckForUpdate``: which stages have something; the versions are not known before."""
        stages = {"stable": self._settings.stable, "beta": self._settings.beta}
        return {stage: {"version": "", "build_id": ""} for stage, url in stages.items() if url}

    def update(self, params: Parameters) -> Json:
        """``Shelly.Update``.

        Raises:
            RpcError: it does not begin.
        """
        url, stage = params.text("url"), params.text("stage")
        if url is not None and stage is not None:
            raise invalid_argument("Either 'url' or 'stage' should be specified!")
        if self._running:
            raise failed_precondition("Already in progress!")
        self._url = self._of_stage(stage) if url is None else url
        if not self._url.startswith(("http://", "https://")) or len(self._url) > _LONGEST_URL:
            raise invalid_argument("Invalid argument 'url'!")
        self._running, self._resumes, self._told = True, 0, 0
        # After the answer.
        self._board.start_timer(timedelta(0), self._begin)
        return None

    # What the update calls: ``updating.Teller``.

    def progressed(self, percent: int) -> None:
        """Tell it in steps, and whenever it goes back."""
        if percent >= self._told + _STEP or percent < self._told:
            self._told = percent
            self._tell({"event": "ota_progress", "msg": "Got data", "progress_percent": percent})

    def succeeded(self) -> None:
        """Say so."""
        self._tell({"event": "ota_success", "msg": "Update applied, rebooting"})

    def failed(self, why: str) -> None:
        """Take it up again, or say so; the old firmware runs on."""
        if why.startswith(_CUT) and self._resumes < _RESUMES:
            self._resumes += 1
            self._board.start_timer(self._timing.retry, self._resume)
            return
        self._running = False
        self._tell({"event": "ota_error", "msg": why})

    def installed(self) -> None:
        """Reboot into it."""
        self._board.restart(self._timing.restart)

    def _begin(self) -> None:
        self._tell({"event": "ota_begin", "msg": "Waiting for data"})
        self._update.start(self._url, old=False, agent=_AGENT)

    def _resume(self) -> None:
        self._update.again(self._url, old=False, agent=_AGENT, resume=True)

    def _of_stage(self, stage: str | None) -> str:
        match stage:
            case None | "stable":
                url = self._settings.stable
            case "beta":
                url = self._settings.beta
            case _:
                raise invalid_argument("Argument 'stage' should be one of: stable, beta!")
        if not url:
            raise unavailable("No update info!")
        return url
