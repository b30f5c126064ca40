"""What looks at everything, for health; at what may hang, a disk or a name server, bounded in time."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.reach import addresses, knock
from edgeagent.agent.timing import Timing
from edgeagent.clock import Clock
from edgeagent.config import Config
from edgeagent.contracts.reports.health import Check
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.health import Health
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.machine.disk import disk_checks, write_check
from edgeagent.flows.machine.heat import heat_check
from edgeagent.flows.machine.kernel import Kernel
from edgeagent.flows.machine.memory import memory_check
from edgeagent.flows.machine.probe import Probe
from edgeagent.flows.page_health import page_checks
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.wary import WaryDesk
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.flows.way_health import WayToCloud, shown_certificate_check
from edgeagent.flows.worlds import Worlds
from edgeagent.ports.broker import DeviceBus
from edgeagent.store.database import Database
from edgeagent.store.pages import PageLook
from edgeagent.values import dataclass

_DISK: Final = timedelta(seconds=1)
_MACHINE: Final = timedelta(seconds=15)
_PAGES: Final = timedelta(minutes=1)
_WAY: Final = timedelta(minutes=5)


def probes(config: Config, clock: Clock, keeping: StoreKeeping) -> Sequence[Probe]:
    """Build what may hang."""
    folder, kernel, started = config.hub.state_dir, Kernel(), clock.boot()
    pages = PageLook(config.database)

    def machine() -> Sequence[Check]:
        up = clock.boot()
        return [write_check(kernel, folder, up - started, up), memory_check(kernel), heat_check(kernel)]

    looks = [
        Probe("disk", partial(disk_checks, folder), clock, every=_DISK),
        Probe("memory", machine, clock, every=_MACHINE),
        Probe("pages", lambda: page_checks(pages, keeping.damage), clock, every=_PAGES),
    ]
    if config.cloud is not None:
        way = WayToCloud(config.cloud.url, config.cloud.proxy, addresses, knock)
        looks.append(Probe("dns", way.checks, clock, every=_WAY))
    return looks


@dataclass(frozen=True, slots=True)
class Looking:
    """Builds what looks at everything."""

    config: Config
    store: Database
    bus: DeviceBus
    around: Surroundings

    def health(
        self,
        worlds: Worlds,
        ingest: Ingest,
        keeping: StoreKeeping,
        lookout: Lookout,
        watch: BrokerWatch,
        others: tuple[Timing, WaryDesk | None],
    ) -> Health:
        """Build it, of what is looked at."""
        time, outside = others
        return Health(
            store=self.store,
            bus=self.bus,
            devices=worlds.devices,
            holds=worlds.holds,
            ingest=ingest,
            keeping=keeping,
            uplink=lookout.uplink,
            trust=time.desk.trust,
            watch=watch,
            floor=time.floor,
            epochs=time.epochs,
            around=self.around,
            lookout=lookout,
            started=self.around.clock.boot(),
            workers=None if outside is None else outside.presence,
            probes=probes(self.config, self.around.clock, keeping),
        )


def shown_certificates(queue: HttpsQueue | None, clock: Clock) -> Sequence[Callable[[], Check]]:
    """Build what looks at the certificate that the cloud shows; nothing without one."""
    if queue is None:
        return []
    return [lambda: shown_certificate_check(queue.certificate_until, clock.wall())]
