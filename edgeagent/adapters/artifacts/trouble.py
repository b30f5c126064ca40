"""What a failed fetch over the web says: a table of exceptions, and a table of statuses."""

import ssl
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import aiohttp

from edgeagent.adapters.artifacts.addresses import ForbiddenAddressError
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError

_LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
_MOST_WORDS: Final = 300

_OF_STATUS: Final[Mapping[int, tuple[FetchTrouble, str]]] = {
    HTTPStatus.UNAUTHORIZED: (FetchTrouble.LOGIN, "the repository wants a login"),
    HTTPStatus.FORBIDDEN: (FetchTrouble.LOGIN, "the repository does not let us"),
    HTTPStatus.NOT_FOUND: (FetchTrouble.MISSING, "the repository has no such file"),
    HTTPStatus.GONE: (FetchTrouble.MISSING, "the repository has no such file any more"),
    HTTPStatus.REQUEST_TIMEOUT: (FetchTrouble.BUSY, "the repository is busy"),
    HTTPStatus.TOO_MANY_REQUESTS: (FetchTrouble.BUSY, "the repository is busy"),
    HTTPStatus.SERVICE_UNAVAILABLE: (FetchTrouble.BUSY, "the repository is busy"),
    HTTPStatus.BAD_GATEWAY: (FetchTrouble.UNREACHABLE, "the repository is behind something that is not well"),
    HTTPStatus.GATEWAY_TIMEOUT: (
        FetchTrouble.UNREACHABLE,
        "the repository does not answer what is before it",
    ),
    # RFC 6585 section 6: sent by what stands between us and the network.
    HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED: (FetchTrouble.CAPTIVE_PORTAL, "the network wants a login"),
}
# In this order: the first that fits counts.
_OF_EXCEPTION: Final[Sequence[tuple[type[BaseException], FetchTrouble, str]]] = (
    (ForbiddenAddressError, FetchTrouble.FORBIDDEN_ADDRESS, "not connected"),
    (aiohttp.ClientSSLError, FetchTrouble.TLS, "TLS failed"),
    (ssl.SSLError, FetchTrouble.TLS, "TLS failed"),
    (aiohttp.ClientHttpProxyError, FetchTrouble.UNREACHABLE, "the proxy does not let us through"),
    (aiohttp.ClientConnectorDNSError, FetchTrouble.UNREACHABLE, "the name does not resolve"),
    (UnicodeError, FetchTrouble.UNREACHABLE, "the name is none"),
    (aiohttp.ConnectionTimeoutError, FetchTrouble.UNREACHABLE, "no connection in time"),
    (TimeoutError, FetchTrouble.TOO_SLOW, "nothing more came in time"),
    (aiohttp.ClientPayloadError, FetchTrouble.BROKEN_ANSWER, "it breaks off"),
    (aiohttp.ServerDisconnectedError, FetchTrouble.UNREACHABLE, "the connection closed without an answer"),
    (aiohttp.ClientConnectionError, FetchTrouble.UNREACHABLE, "no connection"),
    (OSError, FetchTrouble.UNREACHABLE, "no connection"),
)


def of_exception(why: Exception) -> FetchError:
    """What an exception of the HTTP client or the system means."""
    if isinstance(why, aiohttp.ClientConnectorCertificateError):
        return FetchError(FetchTrouble.TLS, f"certificate refused: {_certificate_words(why)}")
    if (
        isinstance(why, aiohttp.ClientHttpProxyError)
        and why.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
    ):
        return FetchError(FetchTrouble.LOGIN, "the proxy wants another login")
    inner = why.__cause__ or (why.os_error if isinstance(why, aiohttp.ClientConnectorError) else None)
    root = inner if isinstance(inner, ssl.SSLError | ForbiddenAddressError) else why
    for kind, trouble, words in _OF_EXCEPTION:
        if isinstance(root, kind):
            return FetchError(trouble, f"{words}: {_words(root)}")
    return FetchError(FetchTrouble.BROKEN_ANSWER, f"not HTTP as it should be: {type(why).__name__}")


def of_status(status: int, retry_after: str, *, through_proxy: bool) -> FetchError:
    """What a status means that brings no file."""
    asked = _asked(retry_after)
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        trouble = FetchTrouble.LOGIN if through_proxy else FetchTrouble.CAPTIVE_PORTAL
        return FetchError(trouble, "a proxy wants a login", asked)
    trouble, words = _OF_STATUS.get(status, (FetchTrouble.BROKEN_ANSWER, "not an answer to what was asked"))
    return FetchError(trouble, f"{words}: HTTP {status}", asked)


def _asked(text: str) -> timedelta | None:
    """How long the server asks us to wait, in seconds (RFC 9110 section 10.2.3), at most an hour."""
    if not (text.isascii() and text.isdigit()):
        return None
    return min(timedelta(seconds=int(text[:9])), _LONGEST_RETRY_AFTER)


def _words(why: BaseException) -> str:
    """The words of an error for people: one line, of bounded length."""
    if isinstance(why, aiohttp.ClientResponseError):
        return str(why.status)  # its own words repeat the URL, a proxy's password included
    text = " ".join((str(why) or type(why).__name__).split())
    return "".join(sign for sign in text if sign.isprintable())[:_MOST_WORDS]


def _certificate_words(why: aiohttp.ClientConnectorCertificateError) -> str:
    cause = why.certificate_error
    words = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else _words(cause)
    return f"{words} (is this machine's clock right?)" if "expired" in words or "not yet" in words else words
