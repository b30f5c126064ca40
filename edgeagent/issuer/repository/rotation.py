"""Other keys in place of some, or none: by the words that an operator has for them.

root          every key of the root          root-2    that one
policy        the key that signs policies    online    the one that renews the timestamp
anything else is a name in the policy, or the beginning of a key's id
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.policy import id_of_key
from edgeagent.errors import RejectedError
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.repository.folder import ONLINE_KEYS, POLICY_KEYS, ROOT_KEYS, IssuerFolder, save_pair
from edgeagent.issuer.repository.policy_keys import key_named, lost_roles, with_key, without_key
from edgeagent.issuer.repository.publishing import ONLINE_ROLES, Publisher
from edgeagent.issuer.repository.trusted import Trusted
from edgeagent.values import dataclass

_SHORTEST_ID: Final = 8


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of keys came to.

    Attributes:
        trusted: the repository.
        made: files of new private keys.
        told: what a person has to know or do now.
    """

    trusted: Trusted
    made: Sequence[Path] = ()
    told: Sequence[str] = ()


class Keychain:
    """Changes keys. Whoever calls it holds the folder's lock."""

    def __init__(self, folder: IssuerFolder, publisher: Publisher, clock: Clock) -> None:
        self._folder = folder
        self._publisher = publisher
        self._clock = clock

    def rotate(self, what: str, public: bytes | None = None) -> Changed:
        """Put a new key in place of one.

        Args:
            what: which; see the module's docstring.
            public: the new key of a name in the policy; one is made where absent.

        Raises:
            RejectedError: nobody has that name, or the change would leave no policy.
            MissingKeysError, DamagedRepositoryError, ConfigurationError: as for ``Publisher.publish``.
        """
        trusted = self._publisher.read()
        roots = self._root_keys(trusted, what)
        if (roots or what in {POLICY_KEYS, ONLINE_KEYS}) and public is not None:
            raise RejectedError(f"{what}: its new key is made here; a public key is for names in the policy")
        if roots:
            new = [self._folder.new_key(ROOT_KEYS) for _ in roots]
            after = self._publisher.replace_root_keys(add=[key.public for key in new], remove=roots)
            return Changed(after, [self._file_of(key) for key in new])
        if what in {POLICY_KEYS, ONLINE_KEYS}:
            roles = ["targets"] if what == POLICY_KEYS else list(ONLINE_ROLES)
            key = self._folder.new_key(what)
            return Changed(self._publisher.replace_role_key(roles, key), [self._file_of(key)])
        return self._rotate_name(trusted, what, public)

    def revoke(self, what: str) -> Changed:
        """Take a key away for good. Arguments and errors as of ``rotate``."""
        trusted = self._publisher.read()
        if what in {ROOT_KEYS, POLICY_KEYS, ONLINE_KEYS}:
            raise RejectedError(f"{what}: nothing goes on without such a key; rotate it")
        roots = self._root_keys(trusted, what)
        if roots:
            return Changed(self._publisher.replace_root_keys(add=[], remove=roots))
        name = self._name(trusted, what)
        now = self._clock.wall().best
        later = without_key(trusted.policy, name, now=now)
        gone = [f"role {role} is gone: nobody else held it" for role in lost_roles(trusted.policy, later)]
        self._folder.revoke(bytes.fromhex(trusted.policy.keys[name]), name)
        after = self._publisher.publish(later)
        return Changed(after, told=[f"take {name} out of your policy's file as well", *gone])

    def _rotate_name(self, trusted: Trusted, what: str, public: bytes | None) -> Changed:
        name = self._name(trusted, what)
        new = None if public is not None else PrivateKey.new()
        replacing = public if new is None else new.public
        assert replacing is not None  # noqa: S101 - one of the two is there
        later = with_key(trusted.policy, name, replacing, now=self._clock.wall().best)
        made = [] if new is None else [self._save(new, name)]
        self._folder.revoke(bytes.fromhex(trusted.policy.keys[name]), name)
        after = self._publisher.publish(later)
        where = f"{made[0]}.pub" if made else replacing.hex()
        return Changed(after, made, [f"write in your policy's file: {name} = {where}"])

    def _save(self, key: PrivateKey, name: str) -> Path:
        folder = self._folder.path / "keys"
        folder.mkdir(mode=0o700, exist_ok=True)
        number = 2
        while (file := folder / f"{name}-{number}.pem").exists():
            number += 1
        save_pair(key, file, passphrase=None)
        return file

    def _name(self, trusted: Trusted, what: str) -> str:
        name = key_named(trusted.policy, what)
        if name is None:
            names = ", ".join(sorted(trusted.policy.keys))
            raise RejectedError(f"{what!r} is no key of the policy ({names}), nor of root, policy, online")
        return name

    def _root_keys(self, trusted: Trusted, what: str) -> list[str]:
        """Which root keys are meant, by their ids in metadata; none when something else is."""
        of_root = trusted.root.signed.roles["root"].keyids
        if what == ROOT_KEYS:
            return list(of_root)
        known = self._folder.known()
        return [
            keyid
            for keyid in of_root
            if ((key := known.get(keyid)) is not None and what == key.name)
            or (len(what) >= _SHORTEST_ID and self._is_id(trusted, keyid, what.lower()))
        ]

    def _is_id(self, trusted: Trusted, keyid: str, what: str) -> bool:
        public = bytes.fromhex(str(trusted.root.signed.keys[keyid].keyval["public"]))
        return keyid.startswith(what) or id_of_key(public).startswith(what)

    def _file_of(self, key: PrivateKey) -> Path:
        return next(known.file for known in self._folder.known().values() if known.public == key.public)
