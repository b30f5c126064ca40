"""The environment of a process that fetches from strangers: what it needs, and nothing that is ours.

Secrets come in an agent's environment too: credentials of the service's manager, tokens that an operator has
set. What is not named here does not go along; a variable that somebody adds to the service later neither.
"""

from collections.abc import Mapping
from typing import Final

KEPT: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH"),
    }
)
"""Where programs, words, time zones and the system's authorities are, and where Python finds itself."""
_LOCALE: Final = "LC_"


def environment(ours: Mapping[str, str], proxy: str | None) -> dict[str, str]:
    """The variables of a fetching process.

    Args:
        ours: the variables of this process.
        proxy: to go through on the way to an ``https`` address. It goes this way since everybody on the
            machine can read a command line; no other proxy counts.
    """
    kept = {name: value for name, value in ours.items() if name in KEPT or name.startswith(_LOCALE)}
    return kept if proxy is None else kept | {"https_proxy": proxy}
