"""One fetch: bytes from a verified descriptor to a device, as fast as it takes them and not too slowly."""

import asyncio
import logging

from aiohttp import ClientConnectionError, web

from edgeagent.adapters.lan_files.connections import plain_headers
from edgeagent.adapters.lan_files.live import Live
from edgeagent.adapters.lan_files.opened import Opened
from edgeagent.adapters.lan_files.ranges import Stretch
from edgeagent.adapters.lan_files.settings import LanFilesSettings
from edgeagent.clock import Clock
from edgeagent.contracts.serving import Ended
from edgeagent.values import dataclass

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Transfer:
    """A fetch under way.

    Attributes:
        live: the offer.
        opened: the file.
        stretch: what of it.
        partial: whether a range was asked for.
        sent: bytes taken so far.
    """

    live: Live
    opened: Opened
    stretch: Stretch
    partial: bool
    sent: int = 0

    def answer(self) -> web.StreamResponse:
        """The head of the answer."""
        content = self.opened.content
        answer = web.StreamResponse(status=206 if self.partial else 200, headers=plain_headers())
        answer.headers["Accept-Ranges"] = "bytes"
        answer.content_length = self.stretch.length
        if self.partial:
            last = self.stretch.end - 1
            answer.headers["Content-Range"] = f"bytes {self.stretch.first}-{last}/{content.size}"
        answer.force_close()
        return answer

    async def run(
        self, request: web.BaseRequest, answer: web.StreamResponse, clock: Clock, settings: LanFilesSettings
    ) -> Ended:
        """Send it all, or find out why that cannot be."""
        patience = settings.patience.total_seconds()
        try:
            await answer.prepare(request)
            while self.sent < self.stretch.length and not self.live.is_over(clock.boot()):
                piece = await asyncio.to_thread(self._read)
                async with asyncio.timeout(patience):
                    await answer.write(piece)
                if _is_gone(request):
                    return self._cut()
                self._took(piece, clock)
            if self.sent < self.stretch.length:
                return Ended.OVER
            async with asyncio.timeout(patience):
                await answer.write_eof()
        except TimeoutError:
            return Ended.SLOW
        except (ConnectionError, ClientConnectionError):
            return self._cut()
        except OSError as why:
            log.warning(
                "a verified file cannot be sent any more",
                extra={"sha256": self.opened.content.digest, "why": why.strerror},
            )
            return Ended.BROKEN
        return Ended.SENT

    def _read(self) -> bytes:
        """The next piece.

        Raises:
            OSError: it cannot be read, or is not what was verified.
        """
        return self.opened.read(self.stretch.first + self.sent, self.stretch.length - self.sent)

    def _took(self, piece: bytes, clock: Clock) -> None:
        self.sent += len(piece)
        place = self.stretch.first + self.sent
        self.live.moves(self.opened.content.name, place, len(piece), clock.boot())

    def _cut(self) -> Ended:
        """Why the connection is gone."""
        return Ended.OVER if self.live.over else Ended.LEFT


def _is_gone(request: web.BaseRequest) -> bool:
    """Whether the other side has closed: a write that waited for it meanwhile does not tell."""
    return request.transport is None or request.transport.is_closing()
