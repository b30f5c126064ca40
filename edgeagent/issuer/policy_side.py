"""The policy's side of the queue: the repository's files, read-only, for everybody.

What is served proves itself: each file is signed, or named by its digest in one that is. So nobody has to
log in, and a hub's process that fetches needs no secret. A name is a name of the layout or nothing.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from edgeagent.adapters.cloud.wire import Fault
from edgeagent.errors import ConfigurationError
from edgeagent.issuer.bodies import ProblemError, answer_bytes
from edgeagent.issuer.repository.files import MissingFileError, RepositoryFiles


class PolicySide:
    """Answers whoever wants to know the policy."""

    def __init__(self, files: RepositoryFiles | None) -> None:
        self._files = files

    async def metadata(self, request: web.Request) -> web.Response:
        """GET policy/metadata/{name}."""
        return await self._file(request, RepositoryFiles.metadata)

    async def target(self, request: web.Request) -> web.Response:
        """GET policy/targets/{name}."""
        return await self._file(request, RepositoryFiles.target)

    async def artifact(self, request: web.Request) -> web.StreamResponse:
        """GET policy/targets/artifacts/{group}/{name}: in pieces, and a part of it where one is asked for."""
        if self._files is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "no artifact is served here")
        names = request.match_info
        try:
            path = await asyncio.to_thread(self._files.artifact, names["group"], names["name"])
        except MissingFileError as why:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "there is no such file") from why
        return web.FileResponse(path, headers={"Content-Type": "application/octet-stream"})

    async def _file(
        self, request: web.Request, read: Callable[[RepositoryFiles, str], bytes]
    ) -> web.Response:
        if self._files is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "no policy is served here")
        try:
            content = await asyncio.to_thread(read, self._files, request.match_info["name"])
        except MissingFileError as why:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "there is no such file") from why
        except ConfigurationError as why:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, Fault.STORAGE, "the file cannot be read"
            ) from why
        return answer_bytes(content)
