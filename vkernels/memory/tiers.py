"""The swap file for flash, and copies by address."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from vkernels.ir.errors import FileError

CHUNK = 1 << 30
"""Maximum bytes of one read or write."""


class Flash:
    """A file of fixed size without a name: it is private, and disappears with the process.

    Raises `FileError` if the folder is missing or not writable, or the disk is full.
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
        """Copy bytes from an address to the file. Raises `OSError`."""
        _whole(_pwrite, self._file.fileno(), offset, address, size)

    def read(self, offset: int, address: int, size: int) -> None:
        """Copy bytes from the file to an address. Raises `OSError`."""
        _whole(_pread, self._file.fileno(), offset, address, size)

    def close(self) -> None:
        """Free the file's space."""
        self._file.close()


def _system_call(name: str) -> Any:
    """Load a function of C's library: it takes addresses, and other threads run meanwhile."""
    found = getattr(ctypes.CDLL(None, use_errno=True), name)
    found.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
    found.restype = ctypes.c_ssize_t
    return found


_pwrite, _pread = _system_call("pwrite"), _system_call("pread")


def _whole(call: Any, file: int, offset: int, address: int, size: int) -> None:
    done = 0
    while done < size:
        got = call(file, address + done, min(CHUNK, size - done), offset + done)
        if got > 0:
            done += got
        elif not got:
            raise OSError(errno.EIO, "the file is shorter than what was written")
        elif (number := ctypes.get_errno()) != errno.EINTR:
            raise OSError(number, os.strerror(number))


def copy_bytes(to: int, source: int, size: int) -> None:
    """Copy between two addresses; other threads run meanwhile."""
    ctypes.memmove(to, source, size)


def storage_of(reference: Any) -> torch.UntypedStorage | None:
    """The storage behind a weak reference, if it still lives."""
    found: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
    return found
