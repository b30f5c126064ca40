"""The authority that certifies hubs now: of its folder, also when another issuing key has taken its place.

While what is there is in the middle of that, or others may read it, the earlier one goes on.
"""

import logging
from collections.abc import Callable
from typing import Final

from cryptography import x509

from edgeagent.core.certificates import key_id, signer_id
from edgeagent.errors import ConfigurationError
from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.issuer.certifying import Authority

log: Final = logging.getLogger(__name__)


class AuthorityInForce:
    """An authority whose files may change.

    Args:
        folder: where they lie.
        first: has the queue itself show what was signed for it; a hub with a certificate of another key
            believes no chain of the earlier one.

    Raises:
        ConfigurationError: a file is missing, is none, or others may read the key.
    """

    def __init__(self, folder: AuthorityFolder, first: Callable[[], None]) -> None:
        self._folder = folder
        self._first = first
        self._marks = folder.marks
        self._authority = folder.load()
        self._is_told = False

    def current(self) -> Authority:
        """What signs now."""
        try:
            marks = self._folder.marks
            if marks == self._marks:
                return self._authority
            self._first()
            self._authority, self._marks, self._is_told = self._folder.load(), marks, False
        except ConfigurationError as why:
            if not self._is_told:
                self._is_told = True
                log.warning("the earlier issuing key goes on", extra={"why": str(why)})
        else:
            log.warning("another issuing key", extra={"key": key_id(self._authority.issuing).hex()})
        return self._authority

    def is_to_renew(self, certificate: x509.Certificate) -> bool:
        """Whether a hub's certificate is of an earlier issuing key, and the hub is to have one of this."""
        return signer_id(certificate) != key_id(self.current().issuing)
