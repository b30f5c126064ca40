"""The way to the cloud, step by step, for health: the name server, the proxy, the certificate (SPEC O5).

What the cloud itself says is the check ``cloud``; these tell where on the way it is stuck.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from edgeagent.clock import Wall
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.values import dataclass

_SHOWN: Final = 3
_PATIENCE: Final = timedelta(seconds=2)
_PORTS: Final = {"http": 80, "https": 443}
_SOON: Final = timedelta(days=14)
_VERY_SOON: Final = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class WayToCloud:
    """Looks along the way; blocks.

    Attributes:
        url: the queue's address.
        proxy: the proxy's, which may hold a login; None for none.
        addresses: where a name leads; raises OSError.
        knock: see that somebody takes connections; raises OSError.
    """

    url: str
    proxy: str | None
    addresses: Callable[[str, int], Sequence[str]]
    knock: Callable[[str, int, timedelta], None]

    def checks(self) -> Sequence[Check]:
        """Look at the name, and at the proxy where there is one."""
        host, port = _end(self.url if self.proxy is None else self.proxy)
        named = self._name(host, port)
        if self.proxy is None:
            return [named]
        if named.level is not Level.OK:
            return [named, _check("proxy", Level.UNKNOWN, "its name leads nowhere", "see the check dns")]
        return [named, self._proxy(host, port)]

    def _name(self, host: str, port: int) -> Check:
        if _is_address(host):
            return _check("dns", Level.OK, f"{host} is an address, no name to ask for")
        try:
            found = self.addresses(host, port)
        except OSError as why:
            return _check(
                "dns",
                Level.WARNING,
                f"{host} leads nowhere: {why.strerror or why}",
                f"getent hosts {host}; resolvectl status or /etc/resolv.conf; is the network up?",
            )
        return _check("dns", Level.OK, f"{host} leads to {', '.join(found[:_SHOWN])}")

    def _proxy(self, host: str, port: int) -> Check:
        try:
            self.knock(host, port, _PATIENCE)
        except OSError as why:
            return _check(
                "proxy",
                Level.WARNING,
                f"{host} port {port} takes no connection: {why.strerror or why}",
                "look at the proxy, or at [cloud] proxy",
            )
        return _check("proxy", Level.OK, f"{host} port {port} takes connections")


def shown_certificate_check(until: datetime | None, wall: Wall) -> Check:
    """Look at the certificate that the cloud has shown.

    Args:
        until: when it ends; None where none was seen since the start.
        wall: the time of day.
    """
    if until is None:
        return _check("cloud-certificate", Level.OK, "none was seen since the start")
    left, told = until - wall.best, f"the cloud's ends at {until:%Y-%m-%d %H:%M} UTC"
    if left > _SOON:
        return _check("cloud-certificate", Level.OK, told)
    level = Level.CRITICAL if left <= _VERY_SOON else Level.WARNING
    return _check("cloud-certificate", level, told, "tell whoever runs the cloud's queue: it has to renew it")


def _end(url: str) -> tuple[str, int]:
    """Host and port of an address."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _check(name: str, level: Level, summary: str, advice: str = "") -> Check:
    return Check(name=name, level=level, summary=summary, advice=advice)
