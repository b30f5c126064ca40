"""A venue in which lists of devices of several families are updated, and what is asked of it.

with rollout_venue(tmp_path, appliances=..., images=..., faults=..., rule=...) as (venue, web):
    venue.comes_in(groups)
    orders = [venue.lists(group) for group in groups]
    venue.goes_on(30)
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.rollouts import RolloutReport
from edgeagent.ids import DeviceId
from edgeagent.issuer.commands import Intent, SignedCommand
from tests.firmware_sim.images import PUBLIC
from tests.support.agents_updates import Released, UpdatingVenue
from tests.support.agents_venue import HUB
from tests.support.brokers import wait_until
from tests.support.stores import query
from tests.support.web_folder import WebFolder, web_folder

ZONE: Final = "Europe/Berlin"
_PATIENCE: Final = 400.0
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Devices that get the same image.

    Attributes:
        image: which.
        devices: in the order of their list.
        profile: of devices that nobody proposes: they told what they are before the agent came.
    """

    image: Released
    devices: Sequence[str]
    profile: str | None = None


class RolloutVenue(UpdatingVenue):
    """See the module's docstring; ``rollout_venue`` makes one."""

    def comes_in(self, groups: Sequence[Group]) -> None:
        """Start agent and worker, and admit all devices."""
        self.open()
        for group in groups:
            for device in group.devices:
                if group.profile is None:
                    self.agent.admit(device)
                else:
                    self.agent.admit_by_hand(device, group.profile, switches=[0])
        wait_until(lambda: all(one.online for one in self.agent.devices().devices), "all devices")
        wait_until(lambda: self.cloud.has_heard, "the hub's hello at the cloud")

    def lists(self, group: Group) -> SignedCommand:
        """Order the update of a list, and have somebody at the hub approve it for each of its devices."""
        devices = [DeviceId(device) for device in group.devices]
        meant = Intent(
            hub=HUB,
            epoch=self.cloud.epoch,
            devices=devices,
            action=ActionName.INSTALL,
            arguments={"artifact": group.image.name, "digest": str(group.image.digest)},
        )
        order = self._issuer.sign(meant)
        self.cloud.send(order.envelope)
        wait_until(lambda: len(self._held(order)) == len(devices), f"the list for {group.image.name}")
        for device in devices:
            self.agent.approve(order.command.id, device, order.sha256)
        return order

    def stands(self, order: SignedCommand) -> RolloutReport:
        """How a list stands, as people are told."""
        said = self.agent.run("--json", "firmware", "status", order.command.id)
        assert said.returncode == 0, said.stderr
        return RolloutReport.model_validate_json(said.stdout)

    @property
    def ended(self) -> int:
        """How many updates are over, by the trail."""
        [(count,)] = query(self.agent.database, "SELECT count(*) FROM audit WHERE kind = 'command_settled'")
        return int(str(count))

    def goes_on(self, number: int) -> None:
        """Wait until so many updates are over."""
        try:
            wait_until(lambda: self.ended >= number, f"{number} updates to be over", within=_PATIENCE)
        except TimeoutError as why:
            raise AssertionError(f"{self.ended} are over\n{self.agent.log[-6000:]}") from why

    def outcomes(self, order: SignedCommand) -> dict[str, Outcome]:
        """How the list's devices ended, by the receipts at the cloud; there is one for each."""
        told = [Receipt.model_validate(each.data) for each in self.cloud.receipts(order.command.id)]
        assert Counter(each.device for each in told) == Counter(order.command.devices)
        return {each.device: each.outcome for each in told}

    def trails(self, order: SignedCommand) -> dict[str, list[str]]:
        """The stages of each device's update, as they were put on record."""
        rows = query(
            self.agent.database,
            "SELECT subject, detail FROM audit WHERE kind IN ('update_moved', 'step_sent') ORDER BY number",
        )
        trails = defaultdict[str, list[str]](list)
        for subject, detail in rows:
            told = json.loads(str(detail))
            if subject == order.command.id and trails[told["device"]][-1:] != [told["stage"]]:
                trails[told["device"]].append(told["stage"])
        return dict(trails)

    def _held(self, order: SignedCommand) -> list[str]:
        said = self.agent.run("--json", "commands", "show", order.command.id)
        if said.returncode:
            return []
        known = CommandsReport.model_validate_json(said.stdout).commands
        return [one.device for one in known if one.state == "held"]


def window(opens: timedelta, *, lasts: timedelta = 3 * _HOUR) -> str:
    """A rule by which a window of each day opens so long from now, or has opened so long ago."""
    begin = datetime.now(ZoneInfo(ZONE)) + opens
    days = '["mon", "tue", "wed", "thu", "fri", "sat", "sun"]'
    return (
        f'zone = "{ZONE}"\n'
        f'windows = [{{ days = {days}, opens = "{begin:%H:%M}", closes = "{begin + lasts:%H:%M}" }}]\n'
    )


@contextmanager
def rollout_venue(
    folder: Path,
    *,
    appliances: Sequence[dict[str, JsonValue]],
    images: Sequence[Released],
    faults: Sequence[dict[str, JsonValue]],
    rule: str,
) -> Iterator[tuple[RolloutVenue, WebFolder]]:
    """A venue, and the web server that its agent fetches policy and files from."""
    repository = folder / "issuer" / "repository"
    with (
        web_folder(repository) as web,
        RolloutVenue(
            folder,
            appliances=appliances,
            images=images,
            faults=faults,
            maker=PUBLIC,
            soak="1s",
            patience="15s",
            rule=rule,
            source=web.address,
            refresh="1s",
            # Long enough that none gives up while the agent is away.
            retry="2s",
        ) as venue,
    ):
        yield venue, web
