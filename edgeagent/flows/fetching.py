"""Files for devices: fetched once for all who want them, verified, and kept while somebody does (SPEC F2).

    waiting ──> fetching ──> fetched         whole, verified by its digest, under its name
                 │    ^ └──> failed          given up, stopped, or not the file that was signed
                 v    │
                retrying                     after a wait; what has come stays and is gone on from

A file is fetched at most once at a time, however many wait for it. What is fetched is used through ``use``,
which keeps it from being removed. Every end is on record.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from datetime import timedelta
from typing import Final

from pydantic import JsonValue
from typing_extensions import override

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.reports.fetches import CollectReport, FetchReport, FetchState
from edgeagent.contracts.reports.health import Check
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import AgentError, RejectedError, StorageError, TransientError, UnknownError
from edgeagent.flows.artifact_space import ArtifactSpace
from edgeagent.flows.fetch_errand import Errand, report_of
from edgeagent.flows.fetch_health import ADVICE, fetch_check
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import ArtifactId, Digest
from edgeagent.ports.artifacts import ArtifactSource, FetchError, SignedFile, SignedFiles
from edgeagent.ports.fetch_desk import FetchDesk
from edgeagent.store import audit
from edgeagent.store.artifact_files import WrongBytesError
from edgeagent.store.audit import Act
from edgeagent.store.database import Database
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

# What the same again would not change; a person has to act.
_FINAL: Final = frozenset(
    {
        FetchTrouble.FORBIDDEN_ADDRESS,
        FetchTrouble.MISSING,
        FetchTrouble.NO_SPACE,
        FetchTrouble.WRONG_BYTES,
        FetchTrouble.STOPPED,
    }
)
# Tries are counted anew whenever so much of a file has come: a bad line ends in the end, and so does a liar.
_PROGRESS: Final = 64
_REMEMBERED: Final = 64
_STOPPED: Final = "it was stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchingSettings:
    """How files are fetched.

    Attributes:
        at_once: how many.
        tries: how often one is tried without progress.
        backoff: between tries.
        tidy_every: how often unused files are looked for.
    """

    at_once: int = 2
    tries: int = 6
    backoff: BackoffRule = field(
        default_factory=lambda: BackoffRule(first=timedelta(seconds=5), longest=timedelta(minutes=5))
    )
    tidy_every: timedelta = timedelta(hours=1)


class Fetching(FetchDesk):
    """Fetches files.

    Args:
        space: where they lie.
        source: who brings them; None where there is nobody.
        signed: which there are.
        store: for what goes on record.
        around: time and chance.
        settings: how.
    """

    def __init__(
        self,
        space: ArtifactSpace,
        source: ArtifactSource | None,
        signed: SignedFiles,
        store: Database,
        around: Surroundings,
        settings: FetchingSettings,
    ) -> None:
        self._space = space
        self._source = source
        self._signed = signed
        self._store = store
        self._around = around
        self._settings = settings
        self._errands: dict[Digest, Errand] = {}
        self._ended: dict[ArtifactId, FetchReport] = {}
        self._new: asyncio.Queue[Errand] = asyncio.Queue()
        self._turns = asyncio.Semaphore(settings.at_once)

    async def run(self) -> None:
        """Fetch what is wanted, and tidy up from time to time; ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tidy())
            while True:
                errand = await self._new.get()
                errand.task = group.create_task(self._run(errand))

    # For flows.

    async def bring(self, file: SignedFile) -> None:
        """Return once a file is here; whoever else waits for it shares the fetch.

        Raises:
            FetchError: it did not come.
            RejectedError: it cannot be here, or is not the file that was signed.
            StorageError: the disk cannot be read.
        """
        errand = await self._begun(file, "agent")
        if errand is None:
            return
        errand.waiting += 1
        try:
            await asyncio.shield(errand.done)
        finally:
            errand.waiting -= 1

    @asynccontextmanager
    async def use(self, file: SignedFile) -> AsyncIterator[int]:
        """Hold a file: a handle of its verified bytes, and it is not removed meanwhile.

        It is lent only as long as it is signed for: it may have been taken back since, or while it came.

        Raises:
            UnknownError: nobody signs for it.
            FetchError: it is not here and did not come.
            RejectedError: it is signed for no more, cannot be here, or was damaged this very moment.
            StorageError: the disk cannot be read.
        """
        await self._check_signed(file)
        with self._space.pinned(file.sha256):
            handle = await self._opened(file)
            try:
                await self._check_signed(file)
                yield handle
            finally:
                os.close(handle)

    async def _check_signed(self, file: SignedFile) -> None:
        if await self._signed.file(file.artifact) != file:
            raise RejectedError(f"{file.artifact} is another file by now")

    async def _opened(self, file: SignedFile) -> int:
        await self.bring(file)
        try:
            return await self._space.open(file)
        except UnknownError:
            # It was being removed when we pinned it; now it is not again.
            await self.bring(file)
            return await self._space.open(file)

    # For people.

    @override
    async def fetch(self, artifact: ArtifactId, actor: str) -> FetchReport:
        file = await self._signed.file(artifact)
        errand = await self._begun(file, actor)
        if errand is None:
            return report_of(file, FetchState.FETCHED, file.length)
        return await self.progress(artifact)

    @override
    async def progress(self, artifact: ArtifactId) -> FetchReport:
        for errand in self._errands.values():
            for report in errand.reports():
                if report.artifact == artifact:
                    return report
        if artifact not in self._ended:
            raise UnknownError(f"{artifact} was not fetched since the agent's start")
        return self._ended[artifact]

    @override
    async def stop(self, artifact: ArtifactId) -> FetchReport:
        errand = self._errand_of(artifact)
        if errand is None:
            raise UnknownError(f"{artifact} is not being fetched")
        if errand.waiting:
            raise RejectedError(f"an update waits for {artifact}: cancel that first")
        errand.is_stopped = True
        if errand.task is not None and not errand.is_ending:
            errand.task.cancel()
        with suppress(AgentError):
            await asyncio.shield(errand.done)
        return self._ended[artifact]

    @override
    async def collect(self, actor: str, *, dry_run: bool) -> CollectReport:
        report = await self._space.collect(self._live, dry_run=dry_run)
        if not dry_run:
            await self._record_removed(report, actor)
        return report

    def check(self) -> Check:
        """How the files stand, for health."""
        failed = [report for report in self._ended.values() if report.state is FetchState.FAILED]
        return fetch_check(failed, self._space.taken, self._space.budget, has_source=self._source is not None)

    # The way of one.

    def _errand_of(self, artifact: ArtifactId) -> Errand | None:
        every = self._errands.values()
        return next((each for each in every if artifact == each.file.artifact or artifact in each.also), None)

    def _live(self) -> dict[Digest, int]:
        """What is on its way, with the bytes that it will have."""
        return {sha256: errand.file.length for sha256, errand in self._errands.items()}

    def _known_source(self) -> ArtifactSource:
        if self._source is None:
            raise RejectedError("there is nowhere to fetch from: [artifacts] source, or [policy] source")
        return self._source

    async def _begun(self, file: SignedFile, actor: str) -> Errand | None:
        """Have a file fetched, unless it is here."""
        errand = self._errands.get(file.sha256)
        if errand is not None:
            errand.joins(file)
            return errand
        if await self._is_here(file):
            return None
        self._known_source()
        self._space.check_size(file)
        done = asyncio.get_running_loop().create_future()
        # Nobody may be waiting when it fails.
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        size = await self._space.part_size(file)
        errand = self._errands.setdefault(
            file.sha256, Errand(file, actor, report_of(file, FetchState.WAITING, size), done)
        )
        errand.joins(file)
        if errand.done is done:
            self._ended.pop(file.artifact, None)
            self._new.put_nowait(errand)
        return errand

    async def _is_here(self, file: SignedFile) -> bool:
        """Whether it is here and what it should be; what is not is gone by then."""
        try:
            os.close(await self._space.open(file))
        except UnknownError:
            return False
        except WrongBytesError as why:
            log.warning("artifact damaged", extra={"artifact": file.artifact, "why": str(why)})
            return False
        return True

    async def _run(self, errand: Errand) -> None:
        begun = self._around.clock.boot()
        try:
            async with self._turns:
                if errand.is_stopped:
                    raise FetchError(FetchTrouble.STOPPED, _STOPPED)
                removed = await self._space.make_room(errand.file, self._live)
                await self._record_removed(removed, "agent")
                await self._brought(errand)
        except asyncio.CancelledError:
            if errand.is_stopped:
                await self._fails(errand, FetchError(FetchTrouble.STOPPED, _STOPPED))
            else:
                errand.done.cancel()
            raise
        except (TransientError, RejectedError) as why:
            await self._fails(errand, why)
        else:
            await self._succeeds(errand, self._around.clock.boot() - begun)

    async def _brought(self, errand: Errand) -> None:
        """Try until it is here."""
        file, backoff, failures = errand.file, Backoff(self._settings.backoff), 0
        while True:
            before = errand.report.bytes
            errand.notes(state=FetchState.FETCHING, tries=errand.report.tries + 1)
            try:
                await self._tried(errand)
            except TransientError as why:
                trouble = why.trouble if isinstance(why, FetchError) else FetchTrouble.FAILED
                self._around.metrics.fetches.labels(trouble).inc()
                has_come = (errand.report.bytes - before) * _PROGRESS >= file.length
                failures = 1 if has_come else failures + 1
                if trouble in _FINAL or failures >= self._settings.tries:
                    raise
                errand.notes(state=FetchState.RETRYING, trouble=trouble, why=str(why), advice=ADVICE[trouble])
                log.info("artifact not fetched yet", extra={"artifact": file.artifact, "why": str(why)})
                asked = why.retry_after if isinstance(why, FetchError) else None
                chance = self._around.chance()
                wait = backoff.failed(self._around.clock.boot(), chance=chance, at_least=asked)
                await asyncio.sleep(wait.total_seconds())
            else:
                return

    async def _tried(self, errand: Errand) -> None:
        """Try once; and once more from the beginning, where what lay there was of another file."""
        source = self._known_source()
        for _ in range(2):
            part = await self._space.part(errand.file)
            began_at = await source.bring(errand.file, part, errand.tells)
            try:
                await self._space.take(errand.file)
            except WrongBytesError as why:
                if began_at == 0:
                    raise FetchError(FetchTrouble.WRONG_BYTES, str(why)) from why
                errand.notes(bytes=0)
            else:
                return
        raise FetchError(FetchTrouble.WRONG_BYTES, "what came is not the file that was signed")

    async def _succeeds(self, errand: Errand, took: timedelta) -> None:
        file, errand.is_ending = errand.file, True
        self._around.metrics.fetches.labels("fetched").inc()
        detail: dict[str, JsonValue] = {
            "sha256": file.sha256,
            "bytes": file.length,
            "tries": errand.report.tries,
            "seconds": round(took.total_seconds(), 3),
        }
        await self._record(_act(AuditKind.ARTIFACT_FETCHED, file.artifact, errand.actor, detail))
        log.info("artifact fetched", extra={"artifact": file.artifact, **detail})
        errand.report = report_of(file, FetchState.FETCHED, file.length, tries=errand.report.tries)
        self._over(errand)
        errand.done.set_result(None)

    async def _fails(self, errand: Errand, why: AgentError) -> None:
        file, errand.is_ending = errand.file, True
        trouble = why.trouble if isinstance(why, FetchError) else FetchTrouble.FAILED
        if trouble is FetchTrouble.STOPPED:
            self._around.metrics.fetches.labels(trouble).inc()
        detail: dict[str, JsonValue] = {"sha256": file.sha256, "trouble": trouble, "why": str(why)}
        await self._record(_act(AuditKind.ARTIFACT_NOT_FETCHED, file.artifact, errand.actor, detail))
        log.warning("artifact not fetched", extra={"artifact": file.artifact, **detail})
        await self._space.note_part(file)
        size = await self._space.part_size(file)
        # In one step: who is told that it has failed finds it among those that are over.
        errand.notes(
            state=FetchState.FAILED, trouble=trouble, why=str(why), advice=ADVICE[trouble], bytes=size
        )
        self._over(errand)
        errand.done.set_exception(why)

    def _over(self, errand: Errand) -> None:
        del self._errands[errand.file.sha256]
        for report in errand.reports():
            self._ended.pop(report.artifact, None)
            self._ended[report.artifact] = report
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    async def _tidy(self) -> None:
        while True:
            try:
                await self.collect("agent", dry_run=False)
            except StorageError as why:
                log.warning("unused artifacts not removed", extra={"why": str(why)})
            await asyncio.sleep(self._settings.tidy_every.total_seconds())

    async def _record_removed(self, report: CollectReport, actor: str) -> None:
        for each in report.removed:
            detail: dict[str, JsonValue] = {"bytes": each.bytes, "why": each.why}
            await self._record(_act(AuditKind.ARTIFACT_REMOVED, each.sha256, actor, detail))
            log.info("artifact removed", extra={"sha256": each.sha256, **detail})

    async def _record(self, act: Act) -> None:
        """Put it on record, as far as the disk lets us: it is a fact already."""
        stamp = self._around.stamp()
        try:
            await self._store.write(lambda tx: audit.append(tx, [act], stamp))
        except StorageError as why:
            log.warning("an artifact's fate is not on record", extra={"kind": act.kind, "why": str(why)})


def _act(kind: AuditKind, subject: str, actor: str, detail: dict[str, JsonValue]) -> Act:
    return Act(kind=kind, subject=subject, actor=actor, detail=detail)
