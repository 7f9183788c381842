"""Real memories: an arena each for the device and the host, a file for flash, and threads that carry bytes between."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from vkernels.ir.errors import FileError, OutOfMemoryError

CHUNK = 1 << 24
"""Bytes that a file is read or written by at once."""


class Lane(Enum):
    """A link and direction: it carries one transfer at a time, in the order in which they were asked for."""

    TO_HOST = "to host"
    FROM_HOST = "from host"
    TO_FLASH = "to flash"
    FROM_FLASH = "from flash"


class Arena:
    """Memory of a fixed size, in one piece. Raises `OutOfMemoryError`."""

    def __init__(self, size: int):
        self.size = size
        try:
            self._memory = mmap.mmap(-1, max(size, mmap.PAGESIZE))
        except (OSError, OverflowError) as error:
            raise OutOfMemoryError(f"no memory for an arena of {size} bytes") from error
        self.address = self.view(0, 1).data_ptr()

    def view(self, offset: int, size: int) -> torch.UntypedStorage:
        """A storage that lies here. It keeps the arena alive."""
        return torch.frombuffer(self._memory, dtype=torch.uint8, offset=offset, count=size).untyped_storage()

    def holds(self, address: int) -> bool:
        """Whether an address is in here."""
        return self.address <= address < self.address + self.size


class Flash:
    """A file of a fixed size that has no name, so that nobody else touches it, and that goes with the process.

    Raises `FileError` where there is no such folder, it may not be written, or the disk is full.
    """

    def __init__(self, folder: Path, size: int):
        self.folder, self.size = folder, size
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115, closed by `close`
        except OSError as error:
            raise FileError(f"{folder}: flash cannot be written there: {error.strerror or error}") from error
        try:
            os.posix_fallocate(self._file.fileno(), 0, size)
        except OSError as error:
            self._file.close()
            raise FileError(f"{folder}: no room for {size} bytes of flash: {error.strerror or error}") from error

    def write(self, offset: int, address: int, size: int) -> None:
        """Bytes from an address to the file. Raises `OSError`."""
        for at in range(0, size, CHUNK):
            part = (ctypes.c_char * min(CHUNK, size - at)).from_address(address + at)
            done = 0
            while done < len(part):
                done += os.pwrite(self._file.fileno(), memoryview(part)[done:], offset + at + done)

    def read(self, offset: int, address: int, size: int) -> None:
        """Bytes from the file to an address. Raises `OSError`."""
        for at in range(0, size, CHUNK):
            part = (ctypes.c_char * min(CHUNK, size - at)).from_address(address + at)
            done = 0
            while done < len(part):
                got = os.preadv(self._file.fileno(), [memoryview(part)[done:]], offset + at + done)
                if not got:
                    raise OSError(0, "the file is shorter than what was written")
                done += got

    def close(self) -> None:
        """Give the file's room back."""
        self._file.close()


class Lanes:
    """A thread for each lane. What is carried is kept alive until it has arrived."""

    def __init__(self) -> None:
        self._threads = {lane: ThreadPoolExecutor(1, f"vkernels {lane.value}") for lane in Lane}

    def carry(self, lane: Lane, alive: object, work: Callable[..., None], *numbers: int) -> Future[None]:
        """Have `work` done by a lane's thread."""

        def run() -> None:
            work(*numbers)
            _ = alive

        return self._threads[lane].submit(run)

    def close(self) -> None:
        """End the threads, when they have done what they were asked."""
        for each in self._threads.values():
            each.shutdown(wait=True)


def copy_bytes(to: int, source: int, size: int) -> None:
    """Between two addresses; other threads run meanwhile."""
    ctypes.memmove(to, source, size)


def storage_of(reference: Any) -> torch.UntypedStorage | None:
    """The storage behind a weak reference, if it still lives."""
    found: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
    return found
