"""``python -m firmware_sim.venue``: a venue, its chapters, its verdict.

Without ``--once`` or a number the venue stays up when its chapters are played, until Ctrl-C.

Exit status: 0 everything that was stated is true; 1 something is false, or the venue cannot be put up or
breaks; 2 the arguments are wrong, or there is no broker; 129, 130 or 143 a signal came before the verdict.
"""

import argparse
import asyncio
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from firmware_sim.fields import InputError
from firmware_sim.venue.broker import Make, choose
from firmware_sim.venue.chapters.book import BOOK
from firmware_sim.venue.children import Children
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.hub import socket_fits
from firmware_sim.venue.play import judge, play, stay
from firmware_sim.venue.stage import put_up
from firmware_sim.venue.telling import Teller

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL: Final = 128
# Seconds.
_LINGERING: Final = 5.0
_LOOK: Final = 0.05


def main(arguments: Sequence[str] | None = None) -> int:
    """Put a venue up and play; see the module's docstring."""
    asked = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal has all our signs
    try:
        chapters = _chosen(asked.chapter)
        make = choose(asked.broker)
        stays = not asked.once and not asked.chapter
        return asyncio.run(_Run(make, chapters, asked.keep, stays=stays).through())
    except InputError as why:
        _complain(why)
        return 2
    except BrokenPipeError:
        # Whoever read us has gone; nothing more can be said, not even by Python at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class _Run:
    """One venue from its first process to its last.

    Args:
        make: of the broker.
        chapters: which, by number.
        keep: the folder that is to stay; None for one that goes.
        stays: whether the venue stays up after its verdict.
    """

    def __init__(self, make: Make, chapters: Sequence[int], keep: Path | None, *, stays: bool) -> None:
        self._make = make
        self._chapters = chapters
        self._keep = keep
        self._stays = stays
        self._teller = Teller(sys.stdout)
        self._signal: int | None = None
        self._status: int | None = None
        self._children: Children | None = None

    async def through(self) -> int:
        """Run it.

        Returns:
            The exit status.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._end, number, task)
        try:
            with _folder(self._keep) as folder:
                await self._in(folder)
        except asyncio.CancelledError:
            if self._signal is None:
                raise
        except (VenueError, ExceptionGroup) as why:
            self._status = 1
            for leaf in _leaves(why):
                _complain(leaf)
        if self._signal is not None:
            self._teller.say("Stopped." if self._keep else "Stopped; nothing of it is left.")
        if self._status is None:
            self._status = 1 if self._signal is None else _BY_SIGNAL + self._signal
        return self._status

    async def _in(self, folder: Path) -> None:
        logs = folder / "log"
        logs.mkdir()
        self._children = children = Children(logs)
        self._teller.title("A venue is put up")
        self._teller.say(f"Everything of it is in {folder}.")
        try:
            async with put_up(self._make, folder, children, self._teller) as venue:
                said = await play(venue, self._chapters)
                self._status = 0 if await judge(venue, said) else 1
                if self._stays:
                    await stay(venue)
        except InputError as why:
            raise VenueError(f"an answer cannot be read: {why}") from why

    def _end(self, number: int, task: asyncio.Task[int]) -> None:
        """Take a signal: the first one ends the venue in order; one that comes meanwhile, at once."""
        if self._children is not None and self._children.closing:
            self._children.kill_all()
        elif self._signal is None:
            self._signal = number
            task.cancel()


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder of a venue: a new one that goes at the end, or an empty one that stays.

    Raises:
        InputError: it cannot be used.
    """
    folder = Path(tempfile.mkdtemp(prefix="edgeagent-venue-")) if keep is None else keep.absolute()
    try:
        _prepare(folder)
        yield folder
    finally:
        if keep is None:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a venue's folder, though somebody may write there for one more moment.

    What a party had started itself lives on a little when that party was killed and not by us.
    """
    end = time.monotonic() + _LINGERING
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or time.monotonic() > end:
            return
        time.sleep(_LOOK)


def _prepare(folder: Path) -> None:
    """Make a folder, or see that it is empty.

    Raises:
        InputError: it cannot be used.
    """
    if not socket_fits(folder):
        raise InputError(f"{folder}: too long a path for a socket; set TMPDIR or --keep to a shorter one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as why:
        raise InputError(f"{folder}: {why.strerror}") from why
    if not is_empty:
        raise InputError(f"--keep: {folder} is not empty")


def _chosen(words: Sequence[str]) -> list[int]:
    """The numbers of the chapters to play; all when none is named.

    Raises:
        InputError: there is no such chapter.
    """
    for word in words:
        if not word.isdecimal() or not 1 <= int(word) <= len(BOOK):
            raise InputError(f"there is no chapter {word!r:.20}; they are 1 to {len(BOOK)}")
    # Each once: a chapter counts what its appliances have done in all.
    return list(dict.fromkeys(map(int, words))) or list(range(1, len(BOOK) + 1))


def _leaves(why: BaseException) -> list[BaseException]:
    if not isinstance(why, BaseExceptionGroup):
        return [why]
    if why.split(VenueError)[1] is not None:
        raise why
    return [leaf for one in why.exceptions for leaf in _leaves(one)]


def _complain(why: BaseException) -> None:
    sys.stderr.write(f"venue: {why}\n")


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {number}  {chapter.title}" for number, chapter in enumerate(BOOK, 1))
    parser = argparse.ArgumentParser(
        prog="run",
        description="A living venue on this machine: broker, simulated appliances, cloud, the real agent.",
        epilog=f"chapters:\n{listed}\n\nWithout --once and N the venue stays up until Ctrl-C.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("chapter", nargs="*", metavar="N", help="play chapter N only, and end")
    parser.add_argument(
        "--once", action="store_true", help="end with the verdict: exit 0 only if all is true"
    )
    parser.add_argument("--broker", type=Make, choices=list(Make), help="default: mosquitto if it is there")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave everything in DIR, which is empty now"
    )
    return parser
