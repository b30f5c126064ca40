"""The devices that have shown themselves and wait for an operator (SPEC M4).

One that stands in the list of a bridge is proposed as that bridge lists it until the bridge has it no more:
the list of another one, whoever sends it, neither takes it back nor puts another topic in its place between
the operator's look and word.
"""

import logging
from typing import Final

from edgeagent.core.profile.match import Inventory, Proposal
from edgeagent.ids import DeviceId

log = logging.getLogger(__name__)

MOST_PROPOSALS: Final = 256
"""How many devices may wait for admission; a flood of made-up ones ends here."""


class Proposals(dict[DeviceId, Proposal]):
    """Proposals by their device."""

    def __init__(self) -> None:
        super().__init__()
        self._lists: dict[DeviceId, str] = {}

    def add(self, proposal: Proposal, listed_on: str = "") -> None:
        """Note one, told on the topic of a list or by the device itself."""
        device = proposal.device
        if device not in self:
            if len(self) >= MOST_PROPOSALS:
                return
            log.info("device proposes itself", extra={"device": device, "profile": proposal.profile})
        elif listed_on and self._lists.get(device, listed_on) != listed_on:
            return
        self[device] = proposal
        if listed_on:
            self._lists[device] = listed_on

    def drop(self, device: DeviceId) -> None:
        """Forget one: it has taken itself back, or was admitted."""
        self.pop(device, None)
        self._lists.pop(device, None)

    def keep(self, inventory: Inventory) -> None:
        """Forget those of a list that stand in it no more: they have taken themselves back."""
        listed = {each.device for each in inventory.proposals}
        for gone in [
            device
            for device, topic in self._lists.items()
            if topic == inventory.topic and device not in listed
        ]:
            self.drop(gone)
