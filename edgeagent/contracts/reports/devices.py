"""Devices, their readings, and those that wait for admission."""

from typing import Annotated

from pydantic import Field, JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import Contract
from edgeagent.contracts.firmware import Fetches
from edgeagent.contracts.reports.status import Seconds
from edgeagent.contracts.scalars import DeviceIdField, LabelField, Timestamp


class ReadingReport(Contract):
    """A reading of a device.

    Attributes:
        value: what it is.
        unit: of a number.
        version: of a state reading.
        at: when it changed last; of a state reading.
        live: whether it was heard since the device came online; of a state reading.
    """

    value: bool | int | float | str
    unit: str = ""
    version: int | None = None
    at: Timestamp | None = None
    live: bool | None = None


class UpdatesReport(Contract):
    """How a device's family is updated.

    Attributes:
        running: the reading that tells the version that runs.
        fetches: who fetches an image, and what it speaks.
        longest_url: characters of an address that it holds.
        reversible: whether an older version can be put on it.
        cancellable: whether a running update can be called off.
        occupies: what is occupied meanwhile beside the device, such as its bridge.
    """

    running: str
    fetches: Fetches = Field(strict=False)
    longest_url: int
    reversible: bool
    cancellable: bool
    occupies: str | None = None


class DeviceReport(Contract):
    """An admitted device; ``updates`` is absent where its family is not updated over the air."""

    device: DeviceIdField
    label: LabelField
    profile: str
    online: bool | None = None
    version: int
    etag: str
    readings: dict[str, ReadingReport]
    actions: list[Annotated[ActionName, Field(strict=False)]]
    updates: UpdatesReport | None = None
    parameters: dict[str, JsonValue]
    heard: Seconds | None = None
    unsafe_messages: int


class ForgottenReport(Contract):
    """A device that was let go.

    Attributes:
        device: its id, whole.
    """

    device: DeviceIdField


class ProposalReport(Contract):
    """A device that has shown itself and waits for admission."""

    device: DeviceIdField
    profile: str
    label: str
    model: str = ""
    firmware: str = ""
    parameters: dict[str, JsonValue]


class DevicesReport(Contract):
    """All devices, and those that wait for admission."""

    devices: list[DeviceReport]
    proposals: list[ProposalReport]


class AdmitRequest(Contract):
    """Asks for a device to be admitted.

    Attributes:
        device: which.
        label: what people call it; the proposed label if absent.
        profile: of its family; the proposed one if absent.
        parameters: of the profile; they add to the proposed ones.
    """

    device: DeviceIdField
    label: LabelField | None = None
    profile: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")] | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict, max_length=32)
