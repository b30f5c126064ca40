"""Whom a fetch believes that a server is the one it says."""

import ssl

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError


def trusting(authorities: bytes | None) -> ssl.SSLContext:
    """Trust those; the system's where there are none.

    Raises:
        FetchError: they are no certificates.
    """
    try:
        # Between certificates stand names in any alphabet.
        known = None if authorities is None else authorities.decode("ascii", "ignore")
        context = ssl.create_default_context(cadata=known)
    except (ssl.SSLError, ValueError) as why:
        raise FetchError(FetchTrouble.TLS, f"the authorities in ca_file are none: {why}") from why
    # What the default is, whoever built the interpreter has chosen.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
