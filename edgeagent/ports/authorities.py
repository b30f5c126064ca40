"""Whom a connection over TLS believes that the other side is the one it says."""

import ssl
from pathlib import Path


def believing(*, file: Path | None = None, text: str | None = None) -> ssl.SSLContext:
    """A context that checks certificate and name, whichever of the adapters connects with it.

    Args:
        file: the authorities that somebody has named, PEM.
        text: the same, as they were read; the system's count where there is neither.

    Raises:
        OSError: they cannot be read, or are none.
        ValueError: they are none.
    """
    context = ssl.create_default_context(cafile=file, cadata=text)
    # What the default is, whoever built the interpreter has chosen.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if file is not None or text is not None:
        # From Python 3.13 on an authority has to be made by all of RFC 5280, as the system's are. One of a
        # plain ``openssl req -x509`` does not say what its key is for, and would be refused once the machine
        # is upgraded. It is believed because somebody has named it, and by each Python alike.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
