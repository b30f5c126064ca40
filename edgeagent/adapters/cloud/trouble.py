"""What a failed exchange says about the link.

Two tables: from an exception of the HTTP client, and from a status that is no answer to the question.
Nothing here ever means "it was taken".
"""

import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import aiohttp

from edgeagent.adapters.cloud.wire import JSON, one_line
from edgeagent.ports.links import LinkError, Trouble, of_verification

LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
"""What a peer may ask us to wait; a mistake there must not keep a hub away for days."""

_PROXY_LOGIN: Final = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
_OF_STATUS: Final[Mapping[int, Trouble]] = {
    HTTPStatus.UNAUTHORIZED: Trouble.LOGIN,
    HTTPStatus.FORBIDDEN: Trouble.LOGIN,
    HTTPStatus.REQUEST_TIMEOUT: Trouble.BUSY,
    HTTPStatus.TOO_MANY_REQUESTS: Trouble.BUSY,
    HTTPStatus.SERVICE_UNAVAILABLE: Trouble.BUSY,
    HTTPStatus.BAD_GATEWAY: Trouble.UNREACHABLE,
    HTTPStatus.GATEWAY_TIMEOUT: Trouble.UNREACHABLE,
    # RFC 6585 section 6: sent by what stands between us and the network.
    HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED: Trouble.CAPTIVE_PORTAL,
}


# In this order: the first that fits counts.
_OF_EXCEPTION: Final[Sequence[tuple[type[Exception], Trouble, str]]] = (
    (aiohttp.ClientSSLError, Trouble.TLS, "TLS failed"),
    (ssl.SSLError, Trouble.TLS, "TLS failed"),
    (aiohttp.ClientHttpProxyError, Trouble.UNREACHABLE, "the proxy does not let us through"),
    (aiohttp.ClientConnectorDNSError, Trouble.UNREACHABLE, "the name does not resolve"),
    (UnicodeError, Trouble.UNREACHABLE, "the name is none"),
    (TimeoutError, Trouble.UNREACHABLE, "no answer in time"),
    (aiohttp.ClientPayloadError, Trouble.BROKEN_ANSWER, "the answer is cut"),
    (aiohttp.ServerDisconnectedError, Trouble.UNREACHABLE, "the connection closed without an answer"),
    (aiohttp.ClientConnectionError, Trouble.UNREACHABLE, "no connection"),
    (OSError, Trouble.UNREACHABLE, "no connection"),
)


def of_exception(why: Exception) -> LinkError:
    """What an exception of the HTTP client or the system means."""
    if isinstance(why, aiohttp.ClientConnectorCertificateError):
        cause = why.certificate_error
        code = cause.verify_code if isinstance(cause, ssl.SSLCertVerificationError) else 0
        return LinkError(of_verification(code), f"certificate refused: {_certificate_words(why)}")
    if isinstance(why, aiohttp.ClientHttpProxyError) and why.status == _PROXY_LOGIN:
        return LinkError(Trouble.LOGIN, "the proxy wants another login")
    # With TLS 1.3 the far side refuses our certificate only after the handshake; some reset the
    # connection before its reason is read, and then it looks unreachable.
    root = why.__cause__ if isinstance(why.__cause__, ssl.SSLError) else why
    for kind, trouble, words in _OF_EXCEPTION:
        if isinstance(root, kind):
            return LinkError(trouble, f"{words}: {_words(root)}")
    return LinkError(Trouble.BROKEN_ANSWER, f"not HTTP as it should be: {type(why).__name__}")


def of_status(
    status: int, content_type: str, headers: Mapping[str, str], now: datetime, *, through_proxy: bool
) -> LinkError | None:
    """What a status means for the link.

    Returns:
        None when it may be an answer to the question: JSON, and neither a refusal of the login, nor a
        request to come later, nor a failure of the far side.
    """
    asked = retry_after(headers, now)
    if status == _PROXY_LOGIN:
        trouble = Trouble.LOGIN if through_proxy else Trouble.CAPTIVE_PORTAL
        return LinkError(trouble, "a proxy wants a login", asked)
    if status in _OF_STATUS:
        return LinkError(_OF_STATUS[status], f"the queue answers {status}", asked)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return LinkError(Trouble.CAPTIVE_PORTAL, f"sent elsewhere with {status}; the queue never does that")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return LinkError(Trouble.BROKEN_ANSWER, f"the queue answers {status}", asked)
    if content_type != JSON:
        return LinkError(Trouble.CAPTIVE_PORTAL, f"{status} with something else than JSON")
    return None


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """How long the far side asks us to wait (RFC 9110 section 10.2.3), at most an hour.

    A date is compared with the answer's own ``Date``, so that a wrong clock here does no harm; with
    ``now`` where that is missing.

    Returns:
        None when it does not say, or says nonsense.
    """
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_RETRY_AFTER)
    moment = _http_date(text)
    if moment is None:
        return None
    wait = moment - (_http_date(headers.get("Date", "")) or now)
    return min(max(wait, timedelta(0)), LONGEST_RETRY_AFTER)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else None


def _words(why: BaseException) -> str:
    """The words of an error for people: one line, of bounded length."""
    if isinstance(why, aiohttp.ClientResponseError):
        return str(why.status)  # its own words repeat the URL, a proxy's password included
    if isinstance(why, aiohttp.ClientConnectorError):
        # Its own words hold an object of Python's.
        return one_line(f"{why.host} port {why.port}: {why.os_error.strerror or why.os_error}")
    return one_line(str(why) or type(why).__name__)


def _certificate_words(why: aiohttp.ClientConnectorCertificateError) -> str:
    cause = why.certificate_error
    words = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else _words(cause)
    return f"{words} (is this machine's clock right?)" if "expired" in words or "not yet" in words else words
