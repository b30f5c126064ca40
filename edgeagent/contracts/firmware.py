"""The firmware of a device profile: how a family is told to install an image, and what it says meanwhile.

What the engine does whatever a profile says: the last step is its own and asks for the version that runs,
since every family says "done" before anybody can know (SPEC F4). ``{url}`` and ``{version}`` are put in by
the engine, as whole texts of a payload; nothing in a profile can make an address.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from edgeagent.contracts.recipes import Denial, Publication, Reply
from edgeagent.contracts.scalars import Duration
from edgeagent.contracts.sources import OnlyIf, Part, PathText, Predicates, ShortText, TopicText, Word


class VersionScheme(StrEnum):
    """The shape of a family's versions, by which they are compared."""

    TASMOTA = "tasmota"
    """``14.1.0(release-tasmota)``: numbers with points, and the build in brackets."""
    SHELLY = "shelly"
    """``1.4.2`` or ``20240213-140411/1.2.2-gabc``: numbers with points, perhaps in a build's name."""
    INTEGER = "integer"
    """``192``: the file version of Zigbee, a whole number."""
    DOTTED = "dotted"
    """``1.4.2``: numbers with points."""


class Fetches(StrEnum):
    """Who fetches the image, and what it speaks."""

    HTTP = "http"
    """The device, without TLS."""
    HTTPS = "https"
    """The device, with TLS or without."""
    BRIDGE = "bridge"
    """The bridge before it, with TLS or without."""


class Told(Part):
    """Where something about the device is known from: exactly one of the two.

    Attributes:
        reading: which.
        parameter: which.
    """

    reading: Word | None = None
    parameter: Word | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> "Told":
        if (self.reading is None) == (self.parameter is None):
            raise ValueError("exactly one of reading and parameter")
        return self


class Least(Part):
    """What a number must be for an installation to begin; one that is not known stands in nobody's way.

    Attributes:
        reading: which.
        at_least: its least value.
    """

    reading: Word
    at_least: float


class Gauge(Part):
    """A message that tells how far it has come. It may go back.

    Attributes:
        topic: where it comes.
        when: predicates on it.
        only_if: see ``OnlyIf``.
        percent: where the part that is done stands, from 0 to 100.
        remaining: where the seconds that are left stand.
    """

    topic: TopicText
    when: Predicates = ()
    only_if: OnlyIf = Field(default_factory=dict)
    percent: PathText | None = None
    remaining: PathText | None = None

    @model_validator(mode="after")
    def _tells_something(self) -> "Gauge":
        if self.percent is None and self.remaining is None:
            raise ValueError("percent or remaining")
        return self


class FirmwareStep(Part):
    """One message of an installation, and what may be heard after it.

    Attributes:
        name: of the step.
        publish: what is sent.
        confirm: what says that it is taken; where nothing is named under ``done`` and the device does not
            return, that is the end of the step.
        fail: what refutes it, besides what refutes any command of the profile.
        progress: what tells how far it has come.
        done: what says that it is done; believed for as much as it is worth.
        stall: how long it may be taken and no progress be told; None where there is none to be told.
        within: how long it may take, the device's return not counted.
        returns: how long the device may then take to go away and come back; None for one that does not.
    """

    name: Word
    publish: Publication
    confirm: Annotated[tuple[Reply, ...], Field(max_length=4)] = ()
    fail: Annotated[tuple[Denial, ...], Field(max_length=8)] = ()
    progress: Annotated[tuple[Gauge, ...], Field(max_length=4)] = ()
    done: Annotated[tuple[Reply, ...], Field(max_length=4)] = ()
    stall: Duration | None = None
    within: Duration
    returns: Duration | None = None

    @model_validator(mode="after")
    def _ends(self) -> "FirmwareStep":
        if not self.confirm and not self.done and self.returns is None:
            raise ValueError("nothing says when it is over: confirm, done or returns")
        if self.stall is not None and not self.progress:
            raise ValueError("a stall is seen by progress: name what tells it")
        return self


class Cancel(Part):
    """How a running installation is called off. Whether it was, the version tells.

    Attributes:
        publish: what is sent.
        confirm: what says that it is called off.
        fail: what says that it is not.
        within: how long that may take.
    """

    publish: Publication
    confirm: Annotated[tuple[Reply, ...], Field(min_length=1, max_length=4)]
    fail: Annotated[tuple[Denial, ...], Field(max_length=4)] = ()
    within: Duration


class FirmwareRecipe(Part):
    """How a family installs firmware.

    Attributes:
        scheme: of its versions.
        running: the reading that tells the version that runs; it must be one that can be asked for, or
            that the device tells by itself.
        interim: texts which in a version say that more is to come, such as a loader's.
        settles: how long after the last step the version may take to be told.
        model: where the device's model is known from.
        hardware: where its hardware revision is known from.
        fetches: see ``Fetches``.
        address: where the device's address in the LAN is known from, if it fetches by itself: nobody else is
            then served its file.
        longest_url: characters of an address that it can hold.
        occupies: what of ``shared`` is occupied meanwhile.
        reversible: whether the same steps take it back to an older version.
        require: what must be so before.
        steps: what is sent, in this order; verification follows by itself.
        cancel: how it is called off; None where it cannot be.
    """

    scheme: VersionScheme = Field(strict=False)
    running: Word
    interim: Annotated[tuple[ShortText, ...], Field(max_length=4)] = ()
    settles: Duration = timedelta(minutes=2)
    model: Told | None = None
    hardware: Told | None = None
    fetches: Fetches = Field(strict=False)
    address: Told | None = None
    longest_url: Annotated[int, Field(ge=64, le=2048)] = 1024
    occupies: Word | None = None
    reversible: bool
    require: Annotated[tuple[Least, ...], Field(max_length=4)] = ()
    steps: Annotated[tuple[FirmwareStep, ...], Field(alias="step", min_length=1, max_length=4)]
    cancel: Cancel | None = None
