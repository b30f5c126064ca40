"""Files for devices: fetched once for all, kept while they are used, tried again, given up, on record."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.reports.fetches import FetchReport, FetchState, Removal
from edgeagent.contracts.reports.health import Level
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.artifact_space import ArtifactSpace, SpaceSettings
from edgeagent.flows.fetching import Fetching, FetchingSettings
from edgeagent.ids import Digest, artifact_id
from edgeagent.ports.artifacts import ArtifactSource, FetchError, SignedFile
from edgeagent.store.artifact_files import ArtifactFiles
from tests.flows.building import Hub, new_hub
from tests.support.clocks import NOON
from tests.support.fetching import ID, FileList, sha256_of, signed_file, some_bytes
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F2")

CONTENT = some_bytes(3000)
FILE = signed_file(CONTENT)
OTHER_BYTES = some_bytes(3000, seed=2)
OTHER = signed_file(OTHER_BYTES, artifact=artifact_id("plug-fw-3"))
ROWS = "SELECT kind, subject, actor, detail FROM audit WHERE kind LIKE 'artifact%' ORDER BY number"


def size_of(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


@dataclass
class FakeSource(ArtifactSource):
    """Brings what it is told to, when it is told to.

    Attributes:
        content: what comes of each file.
        failures: what is raised the next times, each after so many bytes.
        open: whether files come at all now.
        asked: which files were asked for.
    """

    content: dict[str, bytes] = field(default_factory=dict)
    failures: list[tuple[int, FetchError]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)

    @override
    async def bring(self, file: SignedFile, part: Path, tell: Callable[[int], None]) -> int:
        self.asked.append(file.artifact)
        before = size_of(part)
        await self.open.wait()
        upto, failure = self.failures.pop(0) if self.failures else (file.length, None)
        with part.open("ab") as lying:
            lying.write(self.content[file.sha256][before:upto])
        tell(size_of(part))
        if failure is not None:
            raise failure
        return before


@dataclass(frozen=True)
class Desk:
    """What fetches, at a hub."""

    hub: Hub
    source: FakeSource
    signed: FileList
    fetching: Fetching
    folder: Path

    async def is_over(self) -> FetchReport:
        """Wait for the end of the fetch, over however long a time."""
        while not (report := await self.fetching.progress(ID)).is_over:
            await self.hub.passes(timedelta(minutes=1))
        return report

    def fails(self, trouble: FetchTrouble, *, after: int = 0, times: int = 1) -> None:
        self.source.failures += [(after, FetchError(trouble, "as the test wants it"))] * times

    def here(self) -> list[str]:
        """What lies there whole."""
        return sorted(path.name for path in self.folder.iterdir() if path.is_file())


@asynccontextmanager
async def desk(
    folder: Path,
    *,
    budget: int = 10_000,
    has_source: bool = True,
    kind: type[ArtifactFiles] = ArtifactFiles,
) -> AsyncIterator[Desk]:
    async with new_hub(folder) as hub:
        source = FakeSource({FILE.sha256: CONTENT, OTHER.sha256: OTHER_BYTES})
        source.open.set()
        signed = FileList({FILE.artifact: FILE, OTHER.artifact: OTHER})
        files = kind(folder / "artifacts")
        files.part(FILE.sha256)
        fetching = Fetching(
            ArtifactSpace(files, hub.around, SpaceSettings(budget=budget)),
            source if has_source else None,
            signed,
            hub.store,
            hub.around,
            FetchingSettings(),
        )
        running = asyncio.create_task(fetching.run())
        try:
            yield Desk(hub, source, signed, fetching, folder / "artifacts")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_file_is_fetched_used_and_on_record(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        begun = await at.fetching.fetch(ID, "uid:0 root")
        ended = await at.is_over()
        async with at.fetching.use(FILE) as handle:
            used = os.read(handle, 10_000)
        [(kind, subject, actor, _)] = at.hub.rows(ROWS)
        again = await at.fetching.fetch(ID, "uid:0 root")

        assert begun.state is FetchState.WAITING
        assert (ended.state, ended.bytes, ended.tries) == (FetchState.FETCHED, 3000, 1)
        assert used == CONTENT
        assert (kind, subject, actor) == ("artifact_fetched", ID, "uid:0 root")
        assert again.state is FetchState.FETCHED
        assert at.source.asked == [ID]
        assert at.hub.counted("edgeagent_artifact_fetches_total", {"result": "fetched"}) == 1
        assert at.fetching.check().level is Level.OK


async def test_one_fetch_is_for_all_who_wait(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.source.open.clear()
        waiting = [asyncio.create_task(at.fetching.bring(FILE)) for _ in range(20)]
        await eventually(lambda: at.source.asked)
        waiting.pop().cancel()
        at.source.open.set()
        await asyncio.gather(*waiting)

        assert at.source.asked == [ID]
        assert at.here() == [FILE.sha256]


async def test_a_fetch_goes_on_after_failures_and_where_it_was(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.fails(FetchTrouble.UNREACHABLE, after=1000)
        at.fails(FetchTrouble.BROKEN_ANSWER, after=2000)
        await at.fetching.fetch(ID, "uid:0 root")
        ended = await at.is_over()

        assert (ended.state, ended.tries) == (FetchState.FETCHED, 3)
        assert at.hub.counted("edgeagent_artifact_fetches_total", {"result": "unreachable"}) == 1


@pytest.mark.threat("T37")
async def test_a_fetch_without_progress_is_given_up_and_told(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.fails(FetchTrouble.TOO_SLOW, after=10, times=50)
        await at.fetching.fetch(ID, "uid:0 root")
        ended = await at.is_over()
        check = at.fetching.check()

        assert (ended.state, ended.trouble, ended.tries) == (FetchState.FAILED, FetchTrouble.TOO_SLOW, 6)
        assert ended.advice
        assert [row[0] for row in at.hub.rows(ROWS)] == ["artifact_not_fetched"]
        assert check.level is Level.WARNING
        assert ID in check.summary
        assert check.advice
        assert at.here() == []


@pytest.mark.parametrize(
    "trouble", [FetchTrouble.MISSING, FetchTrouble.NO_SPACE, FetchTrouble.FORBIDDEN_ADDRESS]
)
async def test_what_a_person_has_to_change_is_not_tried_again(tmp_path: Path, trouble: FetchTrouble) -> None:
    async with desk(tmp_path) as at:
        at.fails(trouble)
        with pytest.raises(FetchError):
            await at.fetching.bring(FILE)

        assert at.source.asked == [ID]


@pytest.mark.threat("T36")
async def test_other_bytes_are_never_used_and_are_on_record(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.source.content[FILE.sha256] = OTHER_BYTES
        with pytest.raises(FetchError) as why:
            await at.fetching.bring(FILE)
        with pytest.raises(FetchError):
            async with at.fetching.use(FILE):
                raise AssertionError

        assert why.value.trouble is FetchTrouble.WRONG_BYTES
        assert at.here() == []
        assert "wrong_bytes" in str(at.hub.rows(ROWS)[0][3])


async def test_a_part_of_another_file_costs_one_more_try_and_no_more(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        part = at.folder / "part" / FILE.sha256
        part.write_bytes(OTHER_BYTES[:500])
        os.utime(part, (NOON.timestamp(), NOON.timestamp()))
        await at.fetching.bring(FILE)

        assert at.source.asked == [ID, ID]
        assert at.here() == [FILE.sha256]


async def test_a_file_that_was_damaged_is_fetched_again_when_it_is_used(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.fetching.bring(FILE)
        path = at.folder / FILE.sha256
        path.chmod(0o600)
        path.write_bytes(OTHER_BYTES)

        async with at.fetching.use(FILE) as handle:
            assert os.read(handle, 10_000) == CONTENT

        assert at.source.asked == [ID, ID]


async def test_what_was_taken_back_is_not_lent_though_it_is_here(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.fetching.bring(FILE)
        at.signed.files = {FILE.artifact: signed_file(OTHER_BYTES)}
        with pytest.raises(RejectedError, match="another file"):
            async with at.fetching.use(FILE):
                raise AssertionError
        at.signed.files = {}
        with pytest.raises(UnknownError):
            async with at.fetching.use(FILE):
                raise AssertionError


async def test_a_stopped_fetch_leaves_what_has_come(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.fails(FetchTrouble.UNREACHABLE, after=1000)
        await at.fetching.fetch(ID, "uid:0 root")
        await eventually((at.folder / "part" / FILE.sha256).exists)
        stopped = await at.fetching.stop(ID)
        with pytest.raises(UnknownError):
            await at.fetching.stop(ID)
        lying = (at.folder / "part" / FILE.sha256).stat().st_size
        await at.fetching.bring(FILE)

        assert (stopped.state, stopped.trouble) == (FetchState.FAILED, FetchTrouble.STOPPED)
        assert lying == stopped.bytes == 1000
        assert at.here() == [FILE.sha256]
        assert at.fetching.check().level is Level.OK


async def test_what_an_update_waits_for_is_not_stopped(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.source.open.clear()
        waiting = asyncio.create_task(at.fetching.bring(FILE))
        await eventually(lambda: at.source.asked)
        with pytest.raises(RejectedError, match="an update waits"):
            await at.fetching.stop(ID)
        at.source.open.set()
        await waiting


async def test_without_a_source_or_a_name_nothing_is_fetched(tmp_path: Path) -> None:
    async with desk(tmp_path, has_source=False) as at:
        with pytest.raises(RejectedError, match="nowhere to fetch from"):
            await at.fetching.fetch(ID, "uid:0 root")
        with pytest.raises(UnknownError):
            await at.fetching.fetch(artifact_id("nobodys"), "uid:0 root")
        with pytest.raises(UnknownError):
            await at.fetching.progress(ID)

        assert at.source.asked == []
        assert at.hub.rows(ROWS) == []


async def test_a_file_larger_than_the_budget_is_not_fetched(tmp_path: Path) -> None:
    async with desk(tmp_path, budget=2999) as at:
        with pytest.raises(RejectedError, match="raise it"):
            await at.fetching.fetch(ID, "uid:0 root")

        assert at.source.asked == []


async def test_for_a_new_file_the_least_recently_used_goes_unless_it_is_in_use(tmp_path: Path) -> None:
    async with desk(tmp_path, budget=5000) as at:
        await at.fetching.bring(FILE)
        async with at.fetching.use(FILE) as handle:
            with pytest.raises(RejectedError, match="does not fit beside what is in use"):
                await at.fetching.bring(OTHER)
            kept = at.here()
            assert os.read(handle, 10_000) == CONTENT
        await at.fetching.bring(OTHER)

        assert kept == [FILE.sha256]
        assert at.here() == [OTHER.sha256]
        assert ("artifact_removed", FILE.sha256) in [row[:2] for row in at.hub.rows(ROWS)]


async def test_what_nobody_has_used_for_long_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.fetching.bring(FILE)
        await at.fetching.bring(OTHER)
        abandoned = sha256_of(b"abandoned")
        (at.folder / "part" / abandoned).write_bytes(b"aban")
        os.utime(at.folder / "part" / abandoned, (1000, 1000))
        async with at.fetching.use(OTHER):
            at.hub.clock.passes(timedelta(days=31))
            would = await at.fetching.collect("uid:0 root", dry_run=True)
            there = at.here()
            done = await at.fetching.collect("uid:0 root", dry_run=False)

        assert there == sorted([FILE.sha256, OTHER.sha256])
        assert {(each.sha256, each.why) for each in done.removed} == {
            (FILE.sha256, Removal.AGE),
            (abandoned, Removal.ABANDONED),
        }
        assert would.removed == done.removed
        assert (done.kept_bytes, done.in_use) == (3000, 1)
        assert at.here() == [OTHER.sha256]
        assert at.hub.counted("edgeagent_artifact_bytes") == 3000


async def test_a_clock_that_is_not_sure_removes_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.fetching.bring(FILE)
        os.utime(at.folder / FILE.sha256, (2**33, 2**33))

        done = await at.fetching.collect("uid:0 root", dry_run=False)

        assert done.removed == []
        assert at.here() == [FILE.sha256]


@pytest.mark.requirement("F1")
async def test_what_is_taken_back_while_it_comes_is_not_lent(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.source.open.clear()

        async def uses() -> None:
            async with at.fetching.use(FILE):
                pytest.fail("it was lent")

        using = asyncio.create_task(uses())
        await eventually(lambda: at.source.asked == [ID])
        at.signed.files = {OTHER.artifact: OTHER}
        at.source.open.set()

        with pytest.raises(UnknownError):
            await using


class Snatching(ArtifactFiles):
    """Loses a file once, right before it is used: whoever tidies had looked before it was pinned."""

    opened: int = 0

    @override
    def open(self, sha256_: Digest, length: int, now: datetime) -> int:
        self.opened += 1
        if self.opened == 3:  # the first two saw that it is not here yet, and that it is
            self.remove(sha256_)
        return super().open(sha256_, length, now)


async def test_what_goes_while_it_is_being_pinned_is_fetched_again(tmp_path: Path) -> None:
    async with desk(tmp_path, kind=Snatching) as at:
        await at.fetching.bring(FILE)

        async with at.fetching.use(FILE) as handle:
            assert os.read(handle, 10_000) == CONTENT

        assert at.source.asked == [ID, ID]


# The same bytes under two ids.

TWIN = signed_file(CONTENT, artifact=artifact_id("lamp-fw-2"), group="lamp")


async def test_the_same_bytes_under_two_ids_come_once_and_are_told_under_both(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.signed.files = {FILE.artifact: FILE, TWIN.artifact: TWIN}
        one.source.open.clear()
        await one.fetching.fetch(ID, "uid:0 root")
        began = await one.fetching.fetch(TWIN.artifact, "uid:0 root")
        one.source.open.set()
        over = await one.is_over()
        twin = await one.fetching.progress(TWIN.artifact)

        assert (began.artifact, began.state is FetchState.FAILED) == (TWIN.artifact, False)
        assert (over.state, twin.state, twin.artifact) == (
            FetchState.FETCHED,
            FetchState.FETCHED,
            TWIN.artifact,
        )
        assert one.source.asked == [ID]


@pytest.mark.threat("T8")
async def test_who_signs_another_length_of_the_same_bytes_takes_them_from_nobody(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        shorter = replace(TWIN, length=7)
        one.signed.files = {FILE.artifact: FILE, shorter.artifact: shorter}
        one.source.open.clear()
        await one.fetching.fetch(ID, "uid:0 root")
        with pytest.raises(FetchError, match="said to be the same bytes, and not as many"):
            await one.fetching.fetch(shorter.artifact, "uid:0 root")
        one.source.open.set()
        await one.is_over()

        with pytest.raises(FetchError, match="not the file that was signed"):
            await one.fetching.bring(shorter)
        assert one.here() == [FILE.sha256]
        async with one.fetching.use(FILE) as handle:
            assert os.read(handle, len(CONTENT)) == CONTENT
