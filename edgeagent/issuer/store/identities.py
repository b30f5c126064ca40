"""Who hubs are: claim codes and certificates.

Owns ``claims`` and ``certificates``. Of a hub's certificates these count:

    new ──first used──> current ──the next is used──> previous ──and the one after it──> replaced
     └──── another new one, or enrolled anew: replaced            any, by the issuer: revoked

The previous one counts until it ends, so that a hub that dies between trying the new one and putting it in
its place is not locked out. It gets no further one: two machines with one identity would come to light there.
"""

from enum import StrEnum
from typing import Final

from edgeagent.adapters.cloud.identity_wire import Standing
from edgeagent.ids import Digest, HubId
from edgeagent.issuer.claim_wire import ClaimState
from edgeagent.issuer.store.opening import Instant
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

_KEPT: Final = 16

_NEW_CLAIM: Final = """
INSERT INTO claims (secret, hub, state, made, by, until) VALUES (:secret, :hub, 'waiting', :now, :by, :until)
    ON CONFLICT (secret) DO NOTHING
"""
_REVOKE_CLAIMS: Final = "UPDATE claims SET state = 'revoked' WHERE hub = :hub AND state = 'waiting'"
_FORGET_CLAIMS: Final = """
DELETE FROM claims
 WHERE hub = :hub AND state <> 'waiting' AND made <
       (SELECT made FROM claims WHERE hub = :hub ORDER BY made DESC LIMIT 1 OFFSET :kept)
"""
_CLAIM: Final = "SELECT hub, state, until, key, serial FROM claims WHERE secret = :secret"
_CLAIMS: Final = """
SELECT hub, state, made, by, until, used, serial FROM claims ORDER BY made DESC, hub LIMIT :most
"""
_USE_CLAIM: Final = """
UPDATE claims SET state = 'used', key = :key, serial = :serial, used = :now
 WHERE secret = :secret AND state = 'waiting'
"""
_CERTIFY: Final = """
INSERT INTO certificates (serial, hub, state, key, chain, begins, ends, issued)
VALUES (:serial, :hub, 'new', :key, :chain, :begins, :ends, :now)
"""
_CERTIFICATE: Final = (
    "SELECT serial, hub, state, key, chain, begins, ends FROM certificates WHERE serial = :serial"
)
_IN_STATE: Final = """
SELECT serial, hub, state, key, chain, begins, ends FROM certificates WHERE hub = :hub AND state = :state
"""
_REPLACE_ALL: Final = """
UPDATE certificates SET state = 'replaced' WHERE hub = :hub AND state IN ('new', 'current', 'previous')
"""
_MOVE: Final = "UPDATE certificates SET state = :after WHERE hub = :hub AND state = :before"
_REVOKE: Final = """
UPDATE certificates SET state = 'revoked' WHERE hub = :hub AND state IN ('new', 'current', 'previous')
"""
_FORGET_CERTIFICATES: Final = """
DELETE FROM certificates
 WHERE hub = :hub AND state IN ('replaced', 'revoked') AND issued <
       (SELECT issued FROM certificates WHERE hub = :hub ORDER BY issued DESC LIMIT 1 OFFSET :kept)
"""
_HUBS: Final = """
SELECT hub FROM certificates WHERE state IN ('new', 'current', 'previous', 'revoked')
 UNION SELECT hub FROM claims WHERE state = 'waiting'
"""


class CertificateState(StrEnum):
    """Where a certificate stands; see the picture above."""

    NEW = "new"
    CURRENT = "current"
    PREVIOUS = "previous"
    REPLACED = "replaced"
    REVOKED = "revoked"

    @property
    def counts(self) -> bool:
        """Whether who shows it is believed, as long as it has not ended."""
        return self in {CertificateState.NEW, CertificateState.CURRENT, CertificateState.PREVIOUS}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredClaim:
    """A claim code, as far as it is kept.

    Attributes:
        hub: whom it makes.
        state: what has become of it.
        until: milliseconds since 1970; it is over then.
        key: the sha256 of the public key that has used it.
        serial: of the certificate that was given for it.
    """

    hub: HubId
    state: ClaimState
    until: int
    key: Digest | None
    serial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClaim:
    """A claim code, for people. All times are milliseconds since 1970."""

    hub: HubId
    state: ClaimState
    made: int
    by: str
    until: int
    used: int | None
    serial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCertificate:
    """A certificate that was given.

    Attributes:
        serial: its number, in hexadecimal.
        hub: whose.
        state: where it stands.
        key: the sha256 of its public key.
        chain: PEM, as it was answered.
        begins: milliseconds since 1970.
        ends: milliseconds since 1970.
    """

    serial: str
    hub: HubId
    state: CertificateState
    key: Digest
    chain: str
    begins: int
    ends: int

    def standing(self, now: Instant, *, grace: int = 0) -> Standing:
        """Whether it counts now.

        Args:
            now: the present.
            grace: for how many milliseconds after its end it still does.
        """
        if not self.state.counts:
            return Standing.REVOKED if self.state is CertificateState.REVOKED else Standing.REPLACED
        in_time = self.begins <= now.milliseconds < self.ends + grace
        return Standing.VALID if in_time else Standing.OVER


def new_claim(tx: Transaction, secret: Digest, hub: HubId, *, by: str, until: int, now: Instant) -> bool:
    """Let a hub be claimed; an earlier code for it that still waits counts no more.

    Returns:
        Whether it is new; one that is asked for again stays as it is.
    """
    if tx.row(_CLAIM, {"secret": secret}) is not None:
        return False
    tx.execute(_REVOKE_CLAIMS, {"hub": hub})
    names: dict[str, SqlValue] = {"secret": secret, "hub": hub, "by": by, "until": until}
    tx.execute(_NEW_CLAIM, {**names, "now": now.milliseconds})
    tx.execute(_FORGET_CLAIMS, {"hub": hub, "kept": _KEPT})
    return True


def revoke_claims(tx: Transaction, hub: HubId) -> int:
    """Take back the code that waits for a hub. Returns how many there were."""
    return tx.execute(_REVOKE_CLAIMS, {"hub": hub})


def find_claim(db: Snapshot, secret: Digest) -> StoredClaim | None:
    """What is kept of a code, by the sha256 of its secret."""
    row = db.row(_CLAIM, {"secret": secret})
    if row is None:
        return None
    return StoredClaim(
        hub=HubId(row["hub"]),
        state=ClaimState(row["state"]),
        until=row["until"],
        key=row["key"],
        serial=row["serial"],
    )


def claims(db: Snapshot, *, most: int) -> list[ListedClaim]:
    """The newest codes."""
    return [
        ListedClaim(
            hub=HubId(row["hub"]),
            state=ClaimState(row["state"]),
            made=row["made"],
            by=row["by"],
            until=row["until"],
            used=row["used"],
            serial=row["serial"],
        )
        for row in db.rows(_CLAIMS, {"most": most})
    ]


def enrol(tx: Transaction, secret: Digest, certificate: StoredCertificate, now: Instant) -> None:
    """Give a hub its first certificate for a code; all that it had before count no more."""
    names: dict[str, SqlValue] = {"secret": secret, "key": certificate.key, "serial": certificate.serial}
    tx.execute(_USE_CLAIM, {**names, "now": now.milliseconds})
    tx.execute(_REPLACE_ALL, {"hub": certificate.hub})
    _certify(tx, certificate, now)


def renew(tx: Transaction, certificate: StoredCertificate, now: Instant) -> None:
    """Give a hub its next certificate; one that it was given and never used counts no more."""
    tx.execute(_MOVE, {"hub": certificate.hub, "before": "new", "after": "replaced"})
    _certify(tx, certificate, now)


def first_use(tx: Transaction, hub: HubId) -> None:
    """The new certificate of a hub was shown: it is the current one from now on."""
    if tx.row(_IN_STATE, {"hub": hub, "state": "new"}) is None:
        return
    for before, after in (("previous", "replaced"), ("current", "previous"), ("new", "current")):
        tx.execute(_MOVE, {"hub": hub, "before": before, "after": after})


def revoke(tx: Transaction, hub: HubId) -> int:
    """Take back all certificates of a hub, and the code that waits for it. Returns how many counted."""
    revoke_claims(tx, hub)
    return tx.execute(_REVOKE, {"hub": hub})


def find_certificate(db: Snapshot, serial: str) -> StoredCertificate | None:
    """A certificate by its number."""
    return _certificate(db, _CERTIFICATE, {"serial": serial})


def in_state(db: Snapshot, hub: HubId, state: CertificateState) -> StoredCertificate | None:
    """The certificate of a hub that stands there, of the states of which there is one."""
    return _certificate(db, _IN_STATE, {"hub": hub, "state": state})


def known_hubs(db: Snapshot) -> frozenset[HubId]:
    """The hubs that have a certificate or may get one."""
    return frozenset(HubId(row["hub"]) for row in db.rows(_HUBS))


def _certify(tx: Transaction, certificate: StoredCertificate, now: Instant) -> None:
    tx.execute(
        _CERTIFY,
        {
            "serial": certificate.serial,
            "hub": certificate.hub,
            "key": certificate.key,
            "chain": certificate.chain,
            "begins": certificate.begins,
            "ends": certificate.ends,
            "now": now.milliseconds,
        },
    )
    tx.execute(_FORGET_CERTIFICATES, {"hub": certificate.hub, "kept": _KEPT})


def _certificate(db: Snapshot, sql: str, names: dict[str, SqlValue]) -> StoredCertificate | None:
    row = db.row(sql, names)
    if row is None:
        return None
    return StoredCertificate(
        serial=row["serial"],
        hub=HubId(row["hub"]),
        state=CertificateState(row["state"]),
        key=Digest(row["key"]),
        chain=row["chain"],
        begins=row["begins"],
        ends=row["ends"],
    )
