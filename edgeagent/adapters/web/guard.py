"""Who is answered, and what every answer tells a browser.

The address is this machine's own, and so is every page that a browser on it has open. What keeps those out:

*   the Host header must name loopback, so that no name of somebody else's leads here (DNS rebinding);
*   a request that another page has set off is refused, by ``Sec-Fetch-Site`` and ``Origin`` (Fetch standard),
    but for a link to the page itself; pages of another port of this machine are others too;
*   nothing but GET and HEAD is answered, and neither changes anything;
*   every answer forbids to be framed, embedded, or taken for another kind of content, and lets the page load
    nothing from elsewhere and no script that is not a file of ours (Content-Security-Policy).
"""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGE: Final = "/"
"""Where the page is: the one address that a link elsewhere may lead to."""
_METHODS: Final = frozenset({"GET", "HEAD"})
_OWN_SITE: Final = frozenset({"same-origin", "none"})
# The last two (Trusted Types): text becomes neither markup nor script, also if the page should try.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)
"""What every answer says."""


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer only programs and pages of this address; see the module's docstring."""
    if not _is_loopback(_host(request)):
        return web.Response(status=403, text="this is for programs on this machine\n")
    if request.method not in _METHODS:
        return web.Response(
            status=405, headers={"Allow": "GET, HEAD"}, text="this can only be looked at: GET or HEAD\n"
        )
    if _is_from_elsewhere(request):
        return web.Response(status=403, text="this is not for pages of other addresses\n")
    return await handler(request)


async def say_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Put the headers on an answer, whoever has made it."""
    for name, value in HEADERS.items():
        response.headers[name] = value


def _is_from_elsewhere(request: web.Request) -> bool:
    """Whether another page has set the request off. Programs that are no browsers tell nothing."""
    said = request.headers
    if "Origin" in said and said["Origin"] != f"http://{said.get('Host', '')}":
        return True
    if said.get("Sec-Fetch-Site", "none") in _OWN_SITE:
        return False
    is_link = (said.get("Sec-Fetch-Mode"), said.get("Sec-Fetch-Dest")) == ("navigate", "document")
    return not (is_link and request.path == PAGE)


def _host(request: web.Request) -> str:
    """The host that the request names; empty when it names none."""
    try:
        # Without the header aiohttp falls back on whatever this machine calls itself.
        return request.url.host or "" if "Host" in request.headers else ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
