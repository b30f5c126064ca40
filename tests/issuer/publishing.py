"""An issuer's folder with boring defaults, and an independent reader of its repository."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface
from typing_extensions import override

from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.issuer.keys import load_public_key
from edgeagent.issuer.policies import read_policy
from edgeagent.issuer.repository.folder import IssuerFolder
from edgeagent.issuer.repository.founding import Founded, Plan, found
from edgeagent.issuer.repository.publishing import Publisher
from edgeagent.issuer.repository.signing import Lifetimes
from tests.issuer.building import ManualClock

PASSPHRASE: Final = b"correct horse battery"
TODAY: Final = datetime.now(UTC).replace(microsecond=0)
POLICY: Final = """
version = {version}
hubs = ["venue-7"]
valid_for = "365d"

[keys]
desk = "keys/desk.pem.pub"
till = "keys/till.pem.pub"
clock = "keys/clock.pem.pub"

[roles.operators]
kind = "command"
keys = ["desk", "till"]
actions = "*"
devices = "*"

[roles.clocks]
kind = "time"
keys = ["clock"]

[actions.power]
tier = "low"
"""


@dataclass(frozen=True, slots=True)
class Issuing:
    """Somebody who has an issuer's folder.

    Attributes:
        home: where the policy's file and the folder are.
        clock: the time there.
        made: what was made at the beginning.
    """

    home: Path
    clock: ManualClock
    made: Founded

    @property
    def folder(self) -> IssuerFolder:
        """The folder, opened anew."""
        return opened(self.home)

    @property
    def publisher(self) -> Publisher:
        """Whoever publishes."""
        return Publisher(self.folder, self.clock, Lifetimes())

    def policy(self, version: int, *, text: str = POLICY) -> Policy:
        """The policy of the file, with another version."""
        return read_policy(
            text.format(version=version).encode(), now=self.clock.wall().best, key_file=self._public
        )

    def _public(self, name: str) -> bytes:
        return load_public_key(self.home / name)


def opened(home: Path, *, passphrase: Callable[[], bytes] = lambda: PASSPHRASE) -> IssuerFolder:
    """An issuer's folder."""
    return IssuerFolder(path=home / "venue", passphrase=passphrase)


def issuing(home: Path, *, root_keys: int = 3, threshold: int = 2) -> Issuing:
    """A new issuer, whose first policy is in force."""
    (home / "policy.toml").write_text(POLICY.format(version=1))
    clock = ManualClock(TODAY)
    plan = Plan(policy=home / "policy.toml", root_keys=root_keys, threshold=threshold)
    return Issuing(home, clock, found(opened(home), plan, clock))


class _FromFolder(FetcherInterface):
    """Gives the files of a folder as if they came from a network."""

    @override
    def _fetch(self, url: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as the library has it
        path = Path(url.removeprefix("file://"))
        if not path.exists():
            raise DownloadHTTPError("not found", 404)
        return iter([path.read_bytes()])


@dataclass(frozen=True, slots=True)
class Reader:
    """A hub in the eyes of the standard's own client: it keeps what it has verified."""

    state: Path

    @classmethod
    def new(cls, state: Path, first_root: Path) -> "Reader":
        """One that was given the first root, and has seen nothing yet."""
        state.mkdir()
        shutil.copy(first_root, state / "root.json")
        return cls(state)

    def read(self, repository: Path) -> Policy:
        """Bring itself up to date from a folder. Raises as ``fetch``."""
        return self.fetch(f"file://{repository}", _FromFolder())

    def fetch(self, url: str, fetcher: FetcherInterface | None = None) -> Policy:
        """Bring itself up to date.

        Raises:
            RepositoryError: something does not verify.
        """
        updater = Updater(
            str(self.state),
            f"{url}/metadata/",
            target_dir=str(self.state),
            target_base_url=f"{url}/targets/",
            fetcher=fetcher,
            bootstrap=(self.state / "root.json").read_bytes(),
        )
        updater.refresh()
        info = updater.get_targetinfo("policy.json")
        assert info is not None
        got = Path(updater.download_target(info))
        return decode(Policy, got.read_bytes(), limit=POLICY_BYTES)


def days(number: int) -> timedelta:
    """So many days."""
    return timedelta(days=number)
