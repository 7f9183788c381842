"""A file for flash, and bytes by their addresses."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from vkernels.ir.errors import FileError

CHUNK = 1 << 24
"""Bytes that a file is read or written by at once."""


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


def copy_bytes(to: int, source: int, size: int) -> None:
    """Between two addresses; other threads run meanwhile."""
    ctypes.memmove(to, source, size)


def storage_of(reference: Any) -> torch.UntypedStorage | None:
    """The storage behind a weak reference, if it still lives."""
    found: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
    return found
