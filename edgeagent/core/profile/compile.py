"""A profile, made ready for one device.

Everything that does not depend on a message is decided here, once: topics are written out, paths and
predicates are closures, each topic has one session (DESIGN decision 4). What comes out is used for every
message of the device and does no more than look up.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.mqtt import Session, Subscription
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.contracts.reasons import Reason
from edgeagent.core.profile.channels import channels_of
from edgeagent.core.profile.commands import Commands, Work
from edgeagent.core.profile.decode import AVAILABILITY, Decoded, Presence, TopicReader
from edgeagent.core.profile.drafts import Carries, TopicDraft
from edgeagent.core.profile.extraction import Names
from edgeagent.core.profile.firmware import FirmwarePlan, cancel_step, charges_of, topics_of, update_plan
from edgeagent.core.profile.layout import Layout, Outline
from edgeagent.core.profile.match import covers
from edgeagent.core.profile.parameters import Gateway, ParameterValue, identifying, settle
from edgeagent.core.profile.plan import Needed, Plan, Step
from edgeagent.core.profile.spec import AVAILABILITY_SPEC, ReadingSpec, specs_of
from edgeagent.core.profile.templates import template
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId, ReadingName, Topic, TopicFilter, topic_filter

__all__ = ["CompiledDevice", "Gateway", "compile_device"]


class CompiledDevice:
    """A device as its profile speaks with it.

    Attributes:
        device: its native identity.
        profile: of its family.
        availability: the name of the reading that says whether it is there: ``online``, ``offline``.
        parameters: the values of the profile's parameters, completed.
        subscriptions: its topics, each with its session.
        command_topics: filters on which a retained message would act at its next reconnect.
        actions: what it can do, narrowed to it.
        common: those of its topics that other devices may listen to as well, such as a bridge's.
        answers_only: those of them on which nothing but answers comes.
        probe_every: how often it is asked whether it is there; None: when it comes online only.
        charges: what must be so before an update of its firmware begins, where it is known.
    """

    availability = AVAILABILITY

    def __init__(
        self,
        outline: Outline,
        commands: Commands,
        topics: Mapping[Topic, TopicDraft],
        command_topics: tuple[TopicFilter, ...],
        readers: Mapping[str, TopicReader],
    ) -> None:
        self.profile = outline.profile
        self.device = DeviceId(str(outline.scope.values["device"]))
        self.parameters: dict[str, ParameterValue] = {
            name: value for name, value in outline.scope.values.items() if name in outline.profile.parameters
        }
        self.subscriptions = tuple(
            Subscription(TopicFilter(topic), draft.session, draft.retain_handling)
            for topic, draft in topics.items()
        )
        common = {topic: draft for topic, draft in topics.items() if draft.is_common}
        self.common: frozenset[str] = frozenset(common)
        self.answers_only: frozenset[str] = frozenset(
            topic for topic, draft in common.items() if draft.carries == {Carries.ANSWER}
        )
        self.command_topics = command_topics
        self.actions = commands.actions
        probe = outline.profile.probe
        self.probe_every = None if probe is None else probe.every
        self.charges = charges_of(outline)
        self._commands = commands
        self._outline = outline
        self._readers = readers
        self._specs: dict[str, ReadingSpec] = specs_of(outline.profile) | {AVAILABILITY: AVAILABILITY_SPEC}

    @property
    def values(self) -> Mapping[str, ParameterValue]:
        """What each name that may stand in a topic of it stands for."""
        return self._outline.scope.values

    @property
    def silent_after(self) -> timedelta | None:
        """How long it may be silent before it is taken for gone; None for ever."""
        return self.profile.availability.silent_after

    @property
    def readings(self) -> tuple[ReadingName, ...]:
        """The readings that it can have, but for those that it names itself (``temperature.…``)."""
        return tuple(dict.fromkeys(self._outline.names.values()))

    def decode(self, topic: str, payload: bytes, *, retained: bool) -> Decoded:
        """Say what a message says; whatever the bytes, it does not raise."""
        reader = self._readers.get(topic)
        if reader is not None:
            return reader.read(payload, retained=retained)
        decoded = Decoded()
        if retained and payload and any(covers(watched, topic) for watched in self.command_topics):
            decoded.problem = Reason.RETAINED_COMMAND
        return decoded

    def spec(self, reading: ReadingName) -> ReadingSpec:
        """What a reading is.

        Raises:
            MalformedError: the family has no such reading.
        """
        found = self._specs.get(reading) or self._specs.get(reading.partition(".")[0])
        if found is None:
            raise MalformedError(f"{self.profile.id} has no reading {reading!r}")
        return found

    def plan(self, action: ActionName, arguments: Arguments, *, number: int) -> Plan:
        """How an action is carried out.

        Args:
            action: of the catalogue.
            arguments: of the action.
            number: 31 bits that nobody can guess, used for this message only.

        Raises:
            MalformedError: the device has no such action, or the arguments do not fit it.
        """
        return self._commands.plan(action, arguments, number=number)

    def requires(self, action: ActionName, arguments: Arguments) -> tuple[Needed, ...]:
        """What must be known before an action, as its plan says.

        Raises:
            MalformedError: the device has no such action, or the arguments do not fit it.
        """
        return self._commands.requires(action, arguments)

    def work(self, action: ActionName, arguments: Arguments) -> Work:
        """What an action takes.

        Raises:
            MalformedError: the device has no such action, or the arguments do not fit it.
        """
        return self._commands.work(action, arguments)

    def read_back(self, reading: ReadingName, *, number: int) -> Step | None:
        """How a reading is asked for afresh; None when it cannot be asked for."""
        return self._commands.read_back(reading, number=number)

    def questions(self, numbers: Iterator[int]) -> tuple[Step, ...]:
        """All that has to be asked to know the device's state afresh; nothing where it answers nothing.

        Args:
            numbers: each of 31 bits that nobody can guess, used for one message only.
        """
        return self._commands.questions(numbers)

    def probe(self, *, number: int) -> Step | None:
        """What is asked of the device when it has come online; None when nothing is."""
        return self._commands.probe(number=number)

    def firmware(self, *, url: str, version: str, number: int) -> FirmwarePlan:
        """How an image is installed.

        Args:
            url: where whoever fetches it finds it.
            version: which one it is.
            number: as of ``plan``.

        Raises:
            MalformedError: the family is not updated over the air, or cannot take such an address or version.
        """
        return update_plan(self._outline, url=url, version=version, number=number)

    def cancel(self, *, number: int) -> Step | None:
        """How an installation that runs is called off; None where it cannot be.

        Args:
            number: as of ``plan``.
        """
        return cancel_step(self._outline, number=number)


def compile_device(
    profile: DeviceProfile, device: DeviceId, parameters: Mapping[str, object], *, gateway: Gateway
) -> CompiledDevice:
    """Make a profile ready for one device.

    Args:
        profile: of its family, as ``load`` returned it.
        device: its native identity.
        parameters: values of the profile's parameters; what is absent takes its default.
        gateway: this hub as devices address it.

    Raises:
        MalformedError: a parameter is unknown, missing or not of its type; names it.
    """
    scope = settle(profile, device, parameters, gateway)
    outline = Outline(profile, scope, channels_of(profile, scope))
    layout = Layout(outline, identifying(profile))
    layout.add_availability()
    specs = specs_of(profile)
    for name, reading in profile.readings.items():
        layout.add_reading(name, reading, specs[name])
    commands = Commands(outline)
    for text, names in (*commands.answers(), *topics_of(outline)):
        layout.add_answer(text, names)
    watched = tuple(_watched(outline))
    return CompiledDevice(outline, commands, layout.topics, watched, _readers(layout, watched))


def _readers(layout: Layout, watched: tuple[TopicFilter, ...]) -> dict[str, TopicReader]:
    proof = _proof(layout)
    combined = layout.outline.profile.availability.combine == "all"
    known = (Names(), Presence() if combined else None)
    return {
        topic: TopicReader(
            topic,
            draft.build(),
            known,
            most_bytes=layout.outline.profile.most_bytes,
            proves=_proves(draft, proof),
            is_watched=any(covers(each, topic) for each in watched),
        )
        for topic, draft in layout.topics.items()
    }


def _watched(outline: Outline) -> Iterator[TopicFilter]:
    for text in outline.profile.command_topics:
        rendered = template(text).render(outline.scope.values)
        if rendered is not None:
            yield topic_filter(rendered)


def _proof(layout: Layout) -> Session | None:
    """The session whose live messages prove that the device is there.

    That of the last will: the broker keeps the order of one connection only, and telemetry that waited
    in the other would call back a device that has gone. A device that tells nothing on it is believed
    on the other, since a will that comes late would silence it for good.
    """
    if not layout.outline.profile.availability.traffic:
        return None
    others = (draft for draft in layout.topics.values() if Carries.AVAILABILITY not in draft.carries)
    tells = any(draft.session is Session.CONTROL for draft in others)
    return Session.CONTROL if tells else Session.TELEMETRY


def _proves(draft: TopicDraft, proof: Session | None) -> bool:
    return draft.session is proof and Carries.AVAILABILITY not in draft.carries
