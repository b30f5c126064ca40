"""The fetching process: from a repository to raw files in a folder, and nothing else.

It walks the repository as the agent will, so that it knows what to ask for: every later root, the
timestamp, the snapshot, the targets, the policy, and what signs for artifacts. What it thinks of them
counts for nothing; the agent judges what lies in the folder itself. It knows no store, no key and no secret.

    exit 0    fetched is complete, or what came is such that the agent will refuse it
    exit 75   it cannot be fetched now (EX_TEMPFAIL of sysexits.h); stderr says why
"""

import shutil
import ssl
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    RepositoryError,
)

from edgeagent.adapters.metadata.reading import FolderReader, KeepingReader, Reader, WebReader
from edgeagent.adapters.metadata.source import FETCHED, PART, TRUSTED
from edgeagent.adapters.metadata.verifying import Client
from edgeagent.errors import ConfigurationError, TransientError

EXIT_LATER: Final = 75
_NOT_THERE: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What is to be fetched.

    Attributes:
        place: the repository: an address, or the path of a folder.
        into: the work folder, with what is trusted already.
        now: a moment that is certainly past.
        ca_file: the authorities that count, PEM; the system's where absent.
    """

    place: str
    into: Path
    now: datetime
    ca_file: Path | None = None


def fetch(errand: Errand) -> None:
    """Fetch everything; what has come lies in the work folder afterwards, in one step.

    Raises:
        TransientError: it cannot be fetched now.
        ConfigurationError: the authorities' file is none.
    """
    part = errand.into / PART
    shutil.rmtree(part, ignore_errors=True)
    reader = KeepingReader(_reader(errand), part)
    trusted = errand.into / TRUSTED
    try:
        part.mkdir(mode=0o700)
        client = Client(trusted, reader, errand.now, (trusted / "bootstrap.json").read_bytes())
        client.refresh()
        client.download_target(client.policy_target(), str(trusted / "policy"))
        _delegated(client)
    except (RepositoryError, DownloadLengthMismatchError):
        pass  # the agent finds the same in what has come, and puts it on record
    except DownloadError as why:
        raise TransientError(str(why)) from why
    except OSError as why:
        raise TransientError(f"cannot write to {errand.into}: {why.strerror}") from why
    part.rename(errand.into / FETCHED)


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


def _reader(errand: Errand) -> Reader:
    if not errand.place.startswith(("https://", "http://")):
        return FolderReader(Path(errand.place))
    try:
        context = ssl.create_default_context(cafile=errand.ca_file)
    except (OSError, ssl.SSLError) as why:
        raise ConfigurationError(f"cannot use the authorities in {errand.ca_file}: {why}") from why
    return WebReader(errand.place, context)
