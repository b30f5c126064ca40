"""Whether a file may be installed on a device (SPEC V3, F1).

    approved    the policy lists it by id and sha256: it may be used
    signed      the catalogue lists it with that very sha256, and its group's metadata are believed and in
                time: it is what it says
    fitting     it is for this family, model and hardware
    later       it is not below the model's floor, and the device runs an earlier version
    served      devices can fetch files from this hub

Never by an address. All of it is asked again right before the act: what was let in is stopped when its
approval or its signature was taken back. Without a catalogue (at the queue of a policy that is no
repository's, at the isolated worker) only the approval is judged; the hub's daemon always has one.
"""

from typing import Final

from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.catalogue import Artifact, Catalogue
from edgeagent.core.gate.verdict import Refuse
from edgeagent.core.gate.world import Appliance, World
from edgeagent.core.versions import Order, compare
from edgeagent.errors import MalformedError
from edgeagent.ids import ArtifactId, Digest, artifact_id, digest

_DIGITS: Final = 12


def not_installed(command: Command, policy: Policy, world: World) -> Refuse | None:
    """Why a command's artifact is not installed; None where it names none, or one that may be.

    Arguments that no action can have are left to whoever checks arguments.
    """
    named, given = command.arguments.get("artifact"), command.arguments.get("digest")
    if not isinstance(named, str) or not isinstance(given, str):
        return None
    try:
        artifact, sha256 = artifact_id(named), digest(given)
    except MalformedError:
        return None
    return _unapproved(artifact, sha256, policy) or _unsigned(artifact, sha256, world) or _unserved(world)


def unfit(artifact: ArtifactId, policy: Policy, world: World) -> Refuse | None:
    """Why the file that is signed for as an artifact would not be installed; None where it may be."""
    listed = None if world.catalogue is None else world.catalogue.listed.get(artifact)
    if listed is None:
        return Refuse(Reason.ARTIFACT_UNSIGNED, f"nobody signs for {artifact}")
    sha256 = listed.sha256
    return _unapproved(artifact, sha256, policy) or _unsigned(artifact, sha256, world) or _unserved(world)


def _unapproved(artifact: ArtifactId, sha256: Digest, policy: Policy) -> Refuse | None:
    approved = policy.artifacts.get(artifact)
    if approved is None:
        return Refuse(Reason.ARTIFACT_NOT_APPROVED, f"no file is approved as {artifact}")
    if sha256 in approved:
        return None
    return Refuse(Reason.ARTIFACT_NOT_APPROVED, f"{sha256[:_DIGITS]}… is not approved as {artifact}")


def _unsigned(artifact: ArtifactId, sha256: Digest, world: World) -> Refuse | None:
    catalogue = world.catalogue
    if catalogue is None:
        return None
    listed = catalogue.listed.get(artifact)
    if listed is None:
        gone = catalogue.revoked.get(artifact)
        if gone is not None and gone.sha256 == sha256:
            return Refuse(Reason.ARTIFACT_REVOKED, f"{artifact} is signed for no more")
        words = catalogue.contested.get(artifact, f"nobody signs for {artifact}")
        return Refuse(Reason.ARTIFACT_UNSIGNED, words)
    if listed.sha256 != sha256:
        return Refuse(Reason.ARTIFACT_UNSIGNED, f"{sha256[:_DIGITS]}… is not signed for as {artifact}")
    return (
        _doubted(listed, catalogue, world)
        or misfit(listed, world.appliance)
        or _too_old(listed, catalogue, world.appliance)
    )


def _doubted(artifact: Artifact, catalogue: Catalogue, world: World) -> Refuse | None:
    group, until = artifact.signed.group, artifact.signed.until
    if doubt := catalogue.doubt(artifact):
        return Refuse(Reason.ARTIFACT_UNSIGNED, f"the metadata of {group} are refused: {doubt}")
    if world.wall.earliest >= until:
        words = f"the metadata of {group} ended at {until:%Y-%m-%dT%H:%M:%SZ}"
        return Refuse(Reason.ARTIFACT_UNSIGNED, words)
    return None


def _unserved(world: World) -> Refuse | None:
    return None if world.serves_files else Refuse(Reason.SERVES_NO_FILES)


def misfit(artifact: Artifact, appliance: Appliance | None) -> Refuse | None:
    """Why a file is not for a device, whatever its version; None where it is, or where nobody can know."""
    if appliance is None:
        return None
    facts = artifact.facts
    if facts.family != appliance.family:
        words = f"{artifact.id} is for {facts.family}, the device is of {appliance.family}"
        return Refuse(Reason.ARTIFACT_MISFIT, words)
    if facts.models != "*" and appliance.model not in facts.models:
        model = "one that it does not tell" if appliance.model is None else appliance.model
        return Refuse(Reason.ARTIFACT_MISFIT, f"{artifact.id} is not for the device's model, {model}")
    if facts.hardware and appliance.hardware not in facts.hardware:
        hardware = "one that it does not tell" if appliance.hardware is None else appliance.hardware
        return Refuse(Reason.ARTIFACT_MISFIT, f"{artifact.id} is not for the device's hardware, {hardware}")
    return None


def _too_old(artifact: Artifact, catalogue: Catalogue, appliance: Appliance | None) -> Refuse | None:
    version = artifact.facts.version
    # Where the device is not known, what may be installed on one of the models is worth its way.
    models = sorted(artifact.facts.models) if appliance is None else [appliance.model]
    floors = [catalogue.floor_over(artifact, model) for model in models]
    if floors[0] is not None and None not in floors:
        words = f"{version} is not known to reach {floors[0].version}, the floor of {floors[0].model}"
        return Refuse(Reason.ARTIFACT_TOO_OLD, words)
    if appliance is None or appliance.version is None:
        return None
    # What cannot be compared is not guessed at: the floor is kept, and the device tells what became of it.
    if compare(version, appliance.version) in {Order.SAME, Order.OLDER}:
        return Refuse(Reason.ARTIFACT_NOT_NEWER, f"the device runs {appliance.version}, this is {version}")
    return None
