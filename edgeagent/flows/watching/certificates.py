"""Whether the certificates that the hub uses end soon.

Those that it shows end with their first certificate; of a bundle that it trusts the one that ends last
counts, since bundles carry old ones too.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from edgeagent.clock import Wall
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.values import dataclass

SOON: Final = timedelta(days=14)
VERY_SOON: Final = timedelta(days=2)
_LARGEST: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What there is to look at.

    Attributes:
        shown: files with our own certificate first, by their key of the configuration.
        trusted: bundles that others are checked with, by the same.
    """

    shown: Mapping[str, Path]
    trusted: Mapping[str, Path]

    def check(self, wall: Wall) -> Check:
        """Look at all of them; blocks while files are read."""
        ends, unread = self._ends()
        soon = sorted((end, name) for name, end in ends.items() if end - wall.best <= SOON)
        if unread:
            return _check(Level.WARNING, f"cannot be read: {'; '.join(unread)}")
        if not soon:
            return _check(Level.OK, f"{len(ends)} certificate files are looked at; none ends soon")
        told = "; ".join(f"{name} ends at {end:%Y-%m-%d %H:%M} UTC" for end, name in soon)
        first = soon[0][0]
        return _check(Level.CRITICAL if first - wall.best <= VERY_SOON else Level.WARNING, told)

    def _ends(self) -> tuple[dict[str, datetime], list[str]]:
        ends: dict[str, datetime] = {}
        unread: list[str] = []
        for is_shown, files in ((True, self.shown), (False, self.trusted)):
            for name, path in files.items():
                try:
                    found = _ends_in(path)
                except (OSError, ValueError) as why:
                    unread.append(f"{name} ({why})")
                else:
                    ends[name] = found[0] if is_shown else max(found)
        return ends, unread


def _ends_in(path: Path) -> list[datetime]:
    # 2 MiB that a hub without certificates of its own has no need of.
    from cryptography import x509

    with path.open("rb") as file:
        return [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(file.read(_LARGEST))]


def _check(level: Level, summary: str) -> Check:
    advice = "" if level is Level.OK else "put a newer file in its place and restart the agent"
    return Check(name="certificates", level=level, summary=summary, advice=advice)
