"""Where a fetch may connect to: nothing on this machine or in its neighbourhood, unless that is configured.

A name is resolved once, each address looked at, and these very addresses are what is connected to: a name
that leads elsewhere the next time (DNS rebinding) is not asked a next time.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from typing_extensions import override

# Where machines in a cloud are told secrets, beyond the link-local 169.254.169.254.
_METADATA: Final = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
# RFC 6052 section 2.1, RFC 3056: an address of version 4 stands in them.
_NAT64: Final = ip_network("64:ff9b::/96")


class ForbiddenAddressError(OSError):
    """It leads where no repository is."""


def is_allowed(text: str) -> bool:
    """Whether an address is one that a repository may be at."""
    try:
        address = _unwrapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    return not (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in _METADATA
    )


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address of version 4 that stands in one of version 6, if there is one."""
    if not isinstance(address, IPv6Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


class CheckedResolver(AbstractResolver):
    """Resolves names, and refuses those that lead where no repository is.

    Args:
        free: a host that may be anywhere: the proxy, which is configured; None for none.
    """

    def __init__(self, free: str | None = None) -> None:
        self._resolver = ThreadedResolver()
        self._free = free

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if host == self._free:
            return found
        for each in found:
            if not is_allowed(each["host"]):
                raise ForbiddenAddressError(f"{host} leads to {each['host']}")
        return found

    @override
    async def close(self) -> None:
        await self._resolver.close()
