"""A policy's errand: from a repository to raw files for the agent.

It walks the repository as the agent will, so that it knows what to ask for: every later root, the
timestamp, the snapshot, the targets, the policy, and what signs for artifacts. What it thinks of them
counts for nothing; the agent judges what it is given itself.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    RepositoryError,
)

from edgeagent.adapters.artifacts.trusting import trusting
from edgeagent.adapters.metadata.laid import BOOTSTRAP, lay_out
from edgeagent.adapters.metadata.reading import FolderReader, Reader, TellingReader, WebReader
from edgeagent.adapters.metadata.verifying import Client
from edgeagent.contracts.fetching import AUTHORITIES, FetchLine, FetchTrouble, PolicyErrand
from edgeagent.ports.artifacts import FetchError

_NOT_THERE: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
Say = Callable[[FetchLine, bytes], None]


def fetch(errand: PolicyErrand, files: Mapping[str, bytes], say: Say) -> int:
    """Fetch everything, and say each piece; or what comes is such that the agent will refuse it.

    Args:
        errand: from where.
        files: what is trusted already, and the authorities that count.
        say: says a line.

    Returns:
        How many bytes were fetched.

    Raises:
        FetchError: it cannot be fetched now.
    """
    told = _Told(say)
    reader = TellingReader(_reader(errand, files.get(AUTHORITIES)), told.tell)
    trusted = {name: raw for name, raw in files.items() if name != AUTHORITIES}
    try:
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "trusted"
            lay_out(folder, trusted)
            client = Client(folder, reader, errand.now, trusted.get(BOOTSTRAP, b""))
            client.refresh()
            client.download_target(client.policy_target(), str(folder / "policy"))
            _delegated(client)
    except (RepositoryError, DownloadLengthMismatchError):
        pass  # the agent finds the same in what has come, and puts it on record
    except DownloadError as why:
        raise FetchError(FetchTrouble.UNREACHABLE, str(why)) from why
    except OSError as why:
        raise FetchError(FetchTrouble.FAILED, f"no room to work in: {why.strerror}") from why
    return told.size


class _Told:
    """Says each piece of a file."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.size = 0

    def tell(self, name: str | None, piece: bytes) -> None:
        self.size += len(piece)
        self._say(FetchLine(bytes=self.size, name=name, piece=len(piece)), piece)


def _delegated(client: Client) -> None:
    """Fetch what signs for artifacts: all of it, whatever is wrong with one of them.

    What is not there or is none is no business of ours: the agent finds the same, and says so.
    """
    for role in client.roles_for_artifacts():
        try:
            client.delegated(role)
        except (RepositoryError, DownloadLengthMismatchError):
            pass
        except DownloadHTTPError as why:
            if why.status_code not in _NOT_THERE:
                raise
        except (DownloadError, OSError):
            raise
        except Exception:  # noqa: BLE001, S110 - whatever a library makes of one builder's bytes
            pass


def _reader(errand: PolicyErrand, authorities: bytes | None) -> Reader:
    if not errand.is_web:
        return FolderReader(Path(errand.place))
    return WebReader(errand.place, trusting(authorities), errand.proxy)
