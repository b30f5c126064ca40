"""Whom a fetch believes that a server is the one it says."""

import ssl

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.authorities import believing


def trusting(authorities: bytes | None) -> ssl.SSLContext:
    """Trust those; the system's where there are none.

    Raises:
        FetchError: they are no certificates.
    """
    try:
        # Between certificates stand names in any alphabet.
        known = None if authorities is None else authorities.decode("ascii", "ignore")
        return believing(text=known)
    except (ssl.SSLError, ValueError) as why:
        raise FetchError(FetchTrouble.TLS, f"the authorities in ca_file are none: {why}") from why
