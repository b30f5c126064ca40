"""The environment of a process that fetches from strangers: what it needs, and nothing that is ours.

Secrets come in an agent's environment too: credentials of the service's manager, tokens that an operator has
set. What is not named here does not go along; a variable that somebody adds to the service later neither.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

KEPT: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH"),
    }
)
"""Where programs, words, time zones and the system's authorities are, and where Python finds itself."""
_LOCALE: Final = "LC_"


def environment(ours: Mapping[str, str], modules: Iterable[str], scratch: Path) -> dict[str, str]:
    """The variables of a fetching process. No proxy counts but that of its errand.

    Args:
        ours: the variables of this process.
        modules: where this process finds its modules, however it was started; it is to find the same.
        scratch: where it may write.
    """
    kept = {name: value for name, value in ours.items() if name in KEPT or name.startswith(_LOCALE)}
    folders = os.pathsep.join(str(Path(folder).absolute()) for folder in modules)
    return kept | {"PYTHONPATH": folders, "TMPDIR": str(scratch)}
