"""What it costs to fetch and verify a file, beside curl and sha256sum in the same run.

    python -m bench.fetch [--mebibytes N] [--runs N]

One server on the loopback interface serves both. The agent's way is its own: the fetching process is started,
the bytes come, are made durable, verified through the handle and linked under their digest. The reference is
curl into a file and then sha256sum of it, which makes nothing durable. The aim is 0.8 of its speed, and
memory that does not grow with the file.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from aiohttp import web

from bench.figures import Row, table
from edgeagent.adapters.artifacts.source import ArtifactSourceSettings, FetchedFiles
from edgeagent.adapters.fetcher.inside import InsideFetcher
from edgeagent.contracts.fetching import Bounds
from edgeagent.ids import artifact_id, digest
from edgeagent.ports.artifacts import SignedFile
from edgeagent.store.artifact_files import ArtifactFiles

MEBIBYTE: Final = 1024 * 1024
ROWS: Final = (
    Row(name="rate", title="fetched and verified, MiB/s", least_of_reference=0.8),
    Row(name="whole", title="all of it, s", digits=2),
    Row(name="come", title="until the bytes lie there, s", digits=2),
    Row(name="kept", title="durable, verified, linked, s", digits=2),
    Row(name="resumed", title="the last MiB alone, and all verified, s", digits=2),
    Row(name="memory", title="the fetching process at its peak, MiB"),
    Row(name="beyond", title="of that beyond what 1 MiB takes, MiB", digits=1, most=8),
    Row(name="growth", title="the agent's own growth, MiB", digits=1, most=8),
)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Serve a folder from a process of its own.

    Yields:
        Its address.
    """
    words = [sys.executable, "-m", "bench.fetch", "--serve", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = "" if process.stdout is None else process.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def laid_out(folder: Path, size: int, name: str = "bench-1") -> SignedFile:
    """Make a file of some bytes where a repository keeps it."""
    counted, chunk = sha256(), bytes(range(256)) * 4096
    made = folder / "made"
    with made.open("wb") as file:
        for number in range(size // MEBIBYTE):
            piece = number.to_bytes(8, "big") + chunk[8:]
            counted.update(piece)
            file.write(piece)
    signed = SignedFile(
        artifact=artifact_id(name),
        sha256=digest(counted.hexdigest()),
        length=made.stat().st_size,
        path=f"artifacts/bench/{name}",
    )
    place = folder.joinpath(*signed.place)
    place.parent.mkdir(parents=True, exist_ok=True)
    made.rename(place)
    return signed


async def ours(place: str, file: SignedFile, folder: Path) -> Mapping[str, float]:
    """Fetch as the agent does; and once more only the last MiB."""
    files = ArtifactFiles(folder / "artifacts")
    source = FetchedFiles(
        ArtifactSourceSettings(place=place, bounds=Bounds(reserve=0)), InsideFetcher(folder / "fetching")
    )
    before = _own_peak()
    part, begun = files.part(file.sha256), time.perf_counter()
    await source.bring(file, part, lambda _size: None)
    come = time.perf_counter()
    await asyncio.to_thread(files.take, file.sha256, file.length, datetime.now(UTC))
    kept = time.perf_counter()
    growth = _own_peak() - before
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    (folder / "artifacts" / file.sha256).rename(part)
    part.chmod(0o600)
    with part.open("r+b") as cut:
        cut.truncate(file.length - MEBIBYTE)
    again = time.perf_counter()
    await source.bring(file, part, lambda _size: None)
    await asyncio.to_thread(files.take, file.sha256, file.length, datetime.now(UTC))
    resumed = time.perf_counter() - again
    files.remove(file.sha256)
    return {
        "rate": file.length / MEBIBYTE / (kept - begun),
        "whole": kept - begun,
        "come": come - begun,
        "kept": kept - come,
        "resumed": resumed,
        "memory": memory,
        "growth": growth,
    }


def theirs(place: str, file: SignedFile, folder: Path) -> Mapping[str, float]:
    """Fetch with curl, and verify with sha256sum."""
    into = folder / "curled"
    begun = time.perf_counter()
    subprocess.run(["curl", "-s", "-f", "-o", str(into), f"{place}/{'/'.join(file.place)}"], check=True)
    come = time.perf_counter()
    told = subprocess.run(["sha256sum", str(into)], check=True, capture_output=True, text=True).stdout
    kept = time.perf_counter()
    into.unlink()
    if not told.startswith(file.sha256):
        raise RuntimeError("curl has fetched another file")
    rate = file.length / MEBIBYTE / (kept - begun)
    return {"rate": rate, "whole": kept - begun, "come": come - begun, "kept": kept - come}


def measured(folder: Path, *, size: int, runs: int) -> str:
    """Measure both, one after the other, some times."""
    file, small = laid_out(folder, size), laid_out(folder, MEBIBYTE, "bench-0")
    agent: list[Mapping[str, float]] = []
    reference: list[Mapping[str, float]] = []
    with server(folder) as place:
        # The peak of all processes that have been: the small file comes first.
        least = asyncio.run(ours(place, small, folder))["memory"]
        for _ in range(runs):
            reference.append(theirs(place, file, folder))
            found = asyncio.run(ours(place, file, folder))
            agent.append({**found, "beyond": found["memory"] - least})
    return table(ROWS, agent, reference)


def _own_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _serve(folder: Path) -> None:
    app = web.Application()
    app.add_routes([web.static("/", folder)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        asyncio.run(_serve(arguments.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(measured(Path(folder), size=arguments.mebibytes * MEBIBYTE, runs=arguments.runs))


if __name__ == "__main__":
    main()
