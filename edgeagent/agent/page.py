"""The hub's page, put together: what it may ask, and what is remembered for its charts."""

import os
import pwd
from functools import partial

from edgeagent import settings
from edgeagent.adapters.admin.access import Access, Peer
from edgeagent.adapters.admin.route import Role
from edgeagent.adapters.web.page import Page
from edgeagent.adapters.web.questions import Questions
from edgeagent.agent.commands import Commands
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.contracts.reports.dead_letters import LettersWanted
from edgeagent.flows.history import History
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.traces import trace
from edgeagent.store import audit
from edgeagent.store.database import Database, Snapshot
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Shown:
    """The page, and what remembers for it; neither where the page is not wanted."""

    page: Page | None
    history: History | None

    @property
    def flows(self) -> dict[str, Flow]:
        """What of it runs, by name."""
        if self.page is None or self.history is None:
            return {}
        return {"page": self.page.run, "history": self.history.run}


def shown(config: Config, operator: HubOperator, commands: Commands) -> Shown:
    """Build the page, if it is wanted; of what people may ask it takes the looking."""
    if config.web is None or config.web.page == "nobody":
        return Shown(None, None)
    store = operator.look.store
    history = History(store, operator.look.around)
    ask = Questions(
        status=operator.status,
        health=operator.health,
        devices=operator.devices,
        commands=operator.commands,
        command=operator.command,
        trace=partial(trace, store),
        letters=partial(commands.letters.letters, LettersWanted()),
        breakers=commands.breakers.report,
        stops=commands.switch.stops,
        locks=commands.locks.locks,
        history=history.report,
        latest=history.latest,
        mark=partial(_mark, store),
    )
    everyone = config.web.page == "everyone"
    return Shown(Page(ask, None if everyone else partial(_may_look, settings.access(config))), history)


def _may_look(access: Access, uid: int) -> bool:
    """Whether a user may look at the admin socket, by the groups that the machine's records name."""
    try:
        entry = pwd.getpwuid(uid)
        groups = frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid))
    except (KeyError, OSError):
        groups = frozenset()
    return access.allows(Peer(uid, groups), Role.VIEW)


async def _mark(store: Database) -> int:
    return await store.read(_last_row)


def _last_row(db: Snapshot) -> int:
    return audit.head(db).number
