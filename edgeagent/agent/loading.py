"""What the daemon loads before all else, where how it is loaded costs memory that never comes back."""

import mimetypes
import os
from typing import Final

_AUTHORITIES: Final = "SSL_CERT_FILE"


def load_http() -> None:
    """Load aiohttp without the system's authorities.

    At its import it makes two TLS contexts for whoever brings none, and reads each of the 140 certificates of
    a distribution into one: 2 MiB, and a twentieth of a second. We always bring our own (``cloud/tls``).
    And it reads a distribution's table of what the names of files mean, twice: 0.4 MiB. Ours have none.
    """
    mimetypes.knownfiles = []
    before = os.environ.get(_AUTHORITIES)
    os.environ[_AUTHORITIES] = os.devnull
    try:
        import aiohttp  # noqa: F401 - what counts is when
    finally:
        if before is None:
            del os.environ[_AUTHORITIES]
        else:
            os.environ[_AUTHORITIES] = before
