"""Artifacts in the repository: who signs for them, what is signed for, what is released, what is taken back.

    role add      a group of models has keys of its own, and signs for artifacts/<group>/* alone, and
                  for files that are for its devices
    add           the file is copied, and the group signs what it is
    release       the policy lists it: it may be installed
    revoke        the policy lists it no more, and the group signs for it no more

Each is one publication: a reader sees all of it or nothing. One id means one file for ever; what was revoked
comes back under another id only.
"""

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path

from pydantic import JsonValue
from tuf.api.metadata import DelegatedRole, Delegations, Metadata, TargetFile, Targets

from edgeagent.clock import Clock
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.artifact import (
    GROUP_FACTS,
    MOST_GROUPS,
    ArtifactFacts,
    GroupFacts,
    path_of_artifact,
    paths_of_group,
    role_of_group,
)
from edgeagent.contracts.door import encode
from edgeagent.core.catalogue import Artifact, EquivocationError, Listing, Signed, artifact_of, sound
from edgeagent.errors import ConfigurationError, RejectedError, UnknownError
from edgeagent.ids import ArtifactId
from edgeagent.issuer.repository.files import measured
from edgeagent.issuer.repository.folder import IssuerFolder, tuf_key
from edgeagent.issuer.repository.policy_keys import with_artifact, without_artifact
from edgeagent.issuer.repository.publishing import Publisher
from edgeagent.issuer.repository.rotation import Changed
from edgeagent.issuer.repository.signing import MissingKeysError
from edgeagent.issuer.repository.trusted import Trusted
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """What is to be signed for.

    Attributes:
        id: its name; never given to another file.
        group: of models, whose role signs.
        file: its bytes.
        facts: what is said of it.
    """

    id: ArtifactId
    group: str
    file: Path
    facts: ArtifactFacts


class ArtifactRoom:
    """Changes what is known of artifacts. Whoever calls it holds the folder's lock."""

    def __init__(self, folder: IssuerFolder, publisher: Publisher, clock: Clock) -> None:
        self._folder = folder
        self._publisher = publisher
        self._clock = clock

    def add_role(
        self, group: str, devices: GroupFacts, keys: Sequence[bytes] = (), *, threshold: int = 1
    ) -> Changed:
        """Let keys sign for the artifacts of a group of models.

        Args:
            group: its name.
            devices: for which it may sign.
            keys: public keys; one is made where there are none.
            threshold: how many of them have to sign.

        Raises:
            RejectedError: there is such a role, or a key has another role already.
            MissingKeysError, DamagedRepositoryError, ConfigurationError: as for ``Publisher.publish``.
        """
        trusted, role = self._publisher.read(), role_of_group(group)
        if role in trusted.delegated:
            raise RejectedError(
                f"group {group} has a role already; give it other keys by: artifact role rotate"
            )
        if len(trusted.delegated) >= MOST_GROUPS:
            raise RejectedError(f"{MOST_GROUPS} groups are the most")
        return self._give(trusted, (group, devices), (keys, threshold), self._publisher.first())

    def rotate_role(
        self,
        group: str,
        keys: Sequence[bytes] = (),
        *,
        threshold: int = 1,
        devices: GroupFacts | None = None,
    ) -> Changed:
        """Put other keys in place of a group's, which sign anew what is signed.

        Args:
            group: its name.
            keys: as for ``add_role``.
            threshold: as for ``add_role``.
            devices: for which it may sign from now on; as before if absent.

        Raises: as ``add_role``; RejectedError: it has signed for a file for other devices.
        """
        trusted = self._publisher.read()
        signed = self._publisher.following(_role(trusted, group).signed)
        if devices is None:
            devices = trusted.devices_of(group)
        for artifact in trusted.artifacts.values():
            if artifact.signed.group == group and not devices.covers(artifact.facts):
                raise RejectedError(f"{artifact.id} is for other devices: revoke it first")
        return self._give(trusted, (group, devices), (keys, threshold), signed)

    def add(self, new: NewArtifact) -> Artifact:
        """Sign for a file. One that is signed for already with all that is said of it stays as it is.

        Raises:
            EquivocationError: the id means another file, or another group signs for it.
            RejectedError: it was revoked, its version is below a floor, or there is no such group.
            MalformedError: what is said of it is too much, contradicts itself, or is of devices for which the
                group may not sign.
            MissingKeysError, DamagedRepositoryError, ConfigurationError: as for ``Publisher.publish``.
        """
        trusted = self._publisher.read()
        targets = self._publisher.following(_role(trusted, new.group).signed)
        artifact = _measured(new, targets, trusted.devices_of(new.group))
        _check(artifact, trusted)
        if new.id in self._folder.revoked_artifacts():
            raise RejectedError(f"{new.id} was revoked; give the file a new id")
        if new.id not in trusted.artifacts:
            targets.targets[artifact.path] = TargetFile(
                artifact.length, {"sha256": artifact.sha256}, artifact.path, {"custom": _custom(new.facts)}
            )
            write = self._folder.files.write_artifact
            self._publisher.put(
                trusted,
                delegated={role_of_group(new.group): targets},
                first=lambda: write(artifact.path, new.file, artifact.sha256),
            )
        return artifact

    def release(self, artifact: ArtifactId) -> Changed:
        """Let the policy list an artifact. Raises as ``add``; UnknownError: nobody signs for it."""
        trusted = self._publisher.read()
        known = trusted.artifacts.get(artifact)
        if known is None:
            raise UnknownError(f"nobody signs for {artifact}: edgeagent issuer artifact add")
        told = [f'write in your policy\'s file, under [artifacts]: "{artifact}" = ["{known.sha256}"]']
        if ActionName.INSTALL not in trusted.policy.actions:
            told.append("the policy has no rule for install: [actions.install]")
        if known.sha256 in trusted.policy.artifacts.get(artifact, frozenset()):
            return Changed(trusted, told=told)
        policy = with_artifact(trusted.policy, artifact, known.sha256, now=self._clock.wall().best)
        return Changed(self._publisher.put(trusted, policy=policy), told=told)

    def revoke(self, artifact: ArtifactId) -> Changed:
        """Take an artifact back for good: out of the policy, and out of what its group signs for.

        Where the group's keys are not at hand, it is out of the policy alone, which is enough for hubs.

        Raises: as ``release``.
        """
        trusted = self._publisher.read()
        known = trusted.artifacts.get(artifact)
        is_approved = artifact in trusted.policy.artifacts
        if known is None and not is_approved:
            raise UnknownError(f"nobody signs for {artifact}, and the policy does not list it")
        policy = None
        if is_approved:
            policy = without_artifact(trusted.policy, artifact, now=self._clock.wall().best)
        told = [f"take {artifact} out of your policy's file as well"] if is_approved else []
        # Once all is signed and before it is published: no crash lets the id be given to another file.
        note = partial(self._folder.revoke_artifact, artifact)
        if known is None:
            return Changed(self._publisher.put(trusted, policy=policy, first=note), told=told)
        role = role_of_group(known.signed.group)
        targets = self._publisher.following(trusted.delegated[role].signed)
        del targets.targets[known.path]
        try:
            after = self._publisher.put(trusted, policy=policy, delegated={role: targets}, first=note)
        except MissingKeysError as why:
            if policy is None:
                raise
            told.append(
                f"with the keys of {role}, again: edgeagent issuer artifact revoke {artifact} ({why})"
            )
            return Changed(self._publisher.put(trusted, policy=policy, first=note), told=told)
        self._folder.files.remove_artifact(known.path, known.sha256)
        return Changed(after, told=told)

    def _give(
        self,
        trusted: Trusted,
        whose: tuple[str, GroupFacts],
        given: tuple[Sequence[bytes], int],
        signed: Targets,
    ) -> Changed:
        """Let keys sign in a role from now on, and have them sign."""
        (group, devices), (public, threshold) = whose, given
        if not 1 <= threshold <= max(len(public), 1) or len(set(public)) != len(public):
            raise RejectedError(
                "a group has different keys, and a threshold of at least 1 and at most as many"
            )
        role = role_of_group(group)
        _check_apart(trusted, [tuf_key(key).keyid for key in public])
        made = [] if public else [self._folder.new_key(role)]
        keys = [tuf_key(key) for key in [*public, *(one.public for one in made)]]
        delegations = deepcopy(trusted.targets.signed.delegations) or Delegations({}, {})
        assert delegations.roles is not None  # noqa: S101 - hash bins are never read as trusted
        delegations.roles[role] = DelegatedRole(
            *(role, [key.keyid for key in keys], threshold),
            terminating=True,
            paths=[paths_of_group(group)],
            unrecognized_fields={GROUP_FACTS: _custom(devices)},
        )
        used = {keyid for one in delegations.roles.values() for keyid in one.keyids}
        every = {**delegations.keys, **{key.keyid: key for key in keys}}
        delegations.keys = {keyid: key for keyid, key in every.items() if keyid in used}
        after = self._publisher.put(trusted, delegations=delegations, delegated={role: signed})
        known = self._folder.known()
        return Changed(after, [known[tuf_key(one.public).keyid].file for one in made])


def _role(trusted: Trusted, group: str) -> Metadata[Targets]:
    role = trusted.delegated.get(role_of_group(group))
    if role is None:
        raise UnknownError(f"there is no group {group}: edgeagent issuer artifact role add {group}")
    return role


def _measured(new: NewArtifact, targets: Targets, devices: GroupFacts) -> Artifact:
    """The artifact as it would be signed for."""
    try:
        with new.file.open("rb") as file:
            sha256, length = measured(file)
    except OSError as why:
        raise ConfigurationError(f"{new.file}: {why.strerror}") from why
    signed = Signed(group=new.group, version=targets.version, until=targets.expires)
    path = path_of_artifact(new.group, new.id)
    return artifact_of(signed, devices, path, length, {"sha256": sha256}, _custom(new.facts))


def _custom(facts: ArtifactFacts | GroupFacts) -> dict[str, JsonValue]:
    custom: dict[str, JsonValue] = json.loads(encode(facts))
    return custom


def _check(new: Artifact, trusted: Trusted) -> None:
    """Hold a new artifact against what is signed for already.

    Raises:
        EquivocationError: the id is that of another file.
        RejectedError: its version is below a floor.
    """
    known = trusted.artifacts
    before = known.get(new.id)
    if before is not None and not before.is_same_as(new):
        raise EquivocationError(
            f"{new.id} is signed for already by {before.signed.group}, as another file or with other words; "
            "give this one a new id"
        )
    floor = sound(_listing(known.values())).floor_over(new, None)
    if floor is not None:
        raise RejectedError(
            f"version {new.facts.version} is not known to reach {floor.version}, the floor of {floor.model}"
        )
    sound(_listing({**known, new.id: new}.values()))


def _listing(artifacts: Iterable[Artifact]) -> Listing:
    groups: dict[str, list[Artifact]] = {}
    for artifact in artifacts:
        groups.setdefault(artifact.signed.group, []).append(artifact)
    return Listing(groups)


def _check_apart(trusted: Trusted, keyids: Sequence[str]) -> None:
    """Two signatures stand behind a file; who could give both would be one."""
    for name, role in trusted.root.signed.roles.items():
        if not set(keyids).isdisjoint(role.keyids):
            raise RejectedError(f"a key of {name} does not sign for artifacts too: give the group its own")
