"""A real ext4 file system in a file, whose power can be cut: what was not synced by then is gone for good."""

import fcntl
import os
import shutil
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tests.support.brokers import wait_until

_SHUTDOWN: Final = 0x8004587D
"""EXT4_IOC_SHUTDOWN of fs/ext4/ext4.h: _IOR('X', 125, __u32)."""
_NO_LOG_FLUSH: Final = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written any more."""


class Ext4:
    """A small disk. It is mounted while it is entered; skips the test where that is not possible.

    Args:
        folder: for the image and the mount point.
        size: bytes.
    """

    def __init__(self, folder: Path, *, size: int = 64 * 1024 * 1024) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._size = size
        self._image = folder / "disk.img"
        self.root = folder / "disk"

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            pytest.skip("only root may mount a file system")
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("there is no mkfs.ext4")
        self.root.mkdir()
        with self._image.open("wb") as image:
            image.truncate(self._size)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        try:
            self._mount()
        except subprocess.CalledProcessError as why:
            pytest.skip(f"no file system can be mounted here: {why.stderr.decode().strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(
            subprocess.CalledProcessError, TimeoutError
        ):  # it may not have come back after the last cut
            self._unmount()

    def cut(self) -> None:
        """Cut its power: from now on every read and write of it fails."""
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def becomes_read_only(self) -> None:
        """Have the kernel find an error in it: it refuses every write until it is mounted again."""
        source = subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", str(self.root)], check=True, capture_output=True, text=True
        )
        trigger = Path("/sys/fs/ext4", Path(source.stdout.strip()).name, "trigger_fs_error")
        if not trigger.exists():
            pytest.skip("the kernel has no trigger_fs_error")
        trigger.write_text("1")

    def fill(self) -> Path:
        """Take all the room that is left.

        Returns:
            The file that has it.
        """
        ballast = self.root / "ballast"
        for size in (64 * 1024, 1024):
            with ballast.open("ab", buffering=0) as file, suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
        return ballast

    def come_back(self) -> None:
        """Mount it again, as at the next boot; nobody may have a file of it open."""
        self._unmount()
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.root))

    def _unmount(self) -> None:
        _run("umount", str(self.root))
        # Whoever has its own view of all mounts may hold on to it: then it would come back as it is.
        wait_until(self._is_released, f"{self._image} to be mounted nowhere")

    def _is_released(self) -> bool:
        said = subprocess.run(["losetup", "-j", str(self._image)], check=True, capture_output=True)
        return not said.stdout


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
