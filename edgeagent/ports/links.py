"""How a connection to a peer fails, and how it stands."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from edgeagent.errors import TransientError
from edgeagent.values import dataclass


class Trouble(StrEnum):
    """Why a peer could not be used, for people and health."""

    UNREACHABLE = "unreachable"
    """No address, no route, refused, or no answer in time."""
    TLS = "tls"
    """The certificate or the handshake is not in order."""
    TLS_EXPIRED = "tls_expired"
    """The certificate that the peer shows has ended."""
    CLOCK = "clock"
    """The certificate that the peer shows has not begun: this machine's clock is behind."""
    LOGIN = "login"
    """It does not know us, or does not let us."""
    CAPTIVE_PORTAL = "captive_portal"
    """Something else answers in its place."""
    BUSY = "busy"
    """It asked us to come later."""
    BROKEN_ANSWER = "broken_answer"
    """What it answered is cut, or not what was asked."""


# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of openssl/x509_vfy.h.
_OF_VERIFICATION: Final = {9: Trouble.CLOCK, 10: Trouble.TLS_EXPIRED}


def of_verification(code: int) -> Trouble:
    """What it means that a certificate was refused with one of OpenSSL's codes."""
    return _OF_VERIFICATION.get(code, Trouble.TLS)


class LinkError(TransientError):
    """A peer did not do its part this time.

    Attributes:
        trouble: what kind.
        retry_after: how long it asked us to wait; None when it did not say.
    """

    def __init__(self, trouble: Trouble, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.trouble = trouble
        self.retry_after = retry_after


HELD: Final = "held: nothing can be stored"
"""Why a connection that we close ourselves does not stand, while the database takes no writes."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """How a connection stands, for health.

    Attributes:
        connected: whether it stands now.
        since: boot time of the last change.
        attempts: tries since it last stood.
        why: what ended it or keeps it from standing; empty while it stands.
        poisoned: boot time at which the peer last sent what nobody may send; None when it has not.
        unfit: messages that nobody may send, taken and dropped since the start.
        cleared: how often the peer was made to forget what it held, to get past one that cannot be read.
    """

    connected: bool
    since: timedelta
    attempts: int
    why: str
    poisoned: timedelta | None = None
    unfit: int = 0
    cleared: int = 0
