"""A file in shared memory on which each process of a user has a place of its own.

A process holds a lock on its place's byte of the file for as long as it lives. The system releases it at any end,
`kill -9` included, so what a process has written counts for nothing once nobody holds its byte. The file is made by the
process that first needs it, and stays until the machine is started again.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vkernels.ir.errors import SetupError

PATIENCE_SECONDS = 0.5
"""How long to wait for another process that joins."""


class BoardFile:
    """The file, mapped into this process; at most one of a path is open in a process, for closing it drops its locks.

    `address`, `words`: of its memory. `header`: its first bytes, which tell a board from a damaged one.
    """

    def __init__(self, path: str, header: bytes, size: int, places: int) -> None:
        """Open it, or make it. Raises `SetupError` where that cannot be, or another user could write it."""
        self.path, self.places = path, places
        self.file = _opened(path, header, size, places)
        self._memory = mmap.mmap(self.file, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.words = (ctypes.c_int64 * (size // 8)).from_address(self.address)

    def take_place(self, enter: Callable[[int], None]) -> None:
        """Take a place, which is free again when this process ends. `enter`: writes what others read of it, given its
        number, before anybody else joins. Raises `SetupError`."""
        with _locked(self.file, self.places):
            for number in range(self.places):
                if self.try_lock(number):
                    enter(number)
                    return
        raise SetupError(f"{self.path} has no room for more than {self.places} processes")

    def try_lock(self, byte: int) -> bool:
        """Lock a byte, until `unlock` or the end of this process; False where another process holds it."""
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:
            return False
        return True

    def unlock(self, byte: int) -> None:
        """Give a byte back."""
        fcntl.lockf(self.file, fcntl.LOCK_UN, 1, byte)

    def is_held(self, byte: int) -> bool:
        """Whether another process has this place."""
        question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        answer = fcntl.fcntl(self.file, fcntl.F_GETLK, question)
        return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)

    def close(self) -> None:
        """Close the file, as a forked child does; its memory stays, native code may still read it."""
        os.close(self.file)


def board_folder(folders: tuple[str, ...]) -> str:
    """The first of them that is there. Raises `SetupError`."""
    folder = next((folder for folder in folders if folder and Path(folder).is_dir()), None)
    if folder is None:
        raise SetupError("neither /dev/shm nor XDG_RUNTIME_DIR is a folder")
    return folder


def _opened(path: str, header: bytes, size: int, places: int) -> int:
    """A descriptor of the board. One that is damaged, or that others may write, is replaced if it is ours."""
    for _ in range(100):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            _make(path, header, size)
            continue
        except OSError as error:
            raise SetupError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fault = _fault(file, header, size)
            if fault is None:
                return file
            if os.fstat(file).st_uid != os.geteuid() or not stat.S_ISREG(os.fstat(file).st_mode):
                raise SetupError(f"{path} {fault}")
            with _locked(file, places):
                if _is_at(path, file):
                    os.unlink(path)
        except BaseException:
            os.close(file)
            raise
        os.close(file)
    raise SetupError(f"{path} is damaged each time that it is made anew")


def _fault(file: int, header: bytes, size: int) -> str | None:
    """What is wrong with a board, if anything."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        return "is not a file"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    if stat.S_IMODE(status.st_mode) != 0o600:
        return "can be read or written by other users"
    if status.st_size != size or os.pread(file, len(header), 0) != header:
        return "is damaged"
    return None


def _is_at(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def _make(path: str, header: bytes, size: int) -> None:
    """Make a board under another name, and give it its own when it is complete, unless another process was first."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
    try:
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(file, 0o600)  # whatever the umask
            os.posix_fallocate(file, 0, size)  # a full file system is an error here, not a signal later
            os.pwrite(file, header, 0)
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            os.close(file)
            os.unlink(temporary)
    except OSError as error:
        raise SetupError(f"{path} cannot be made: {error.strerror}") from error


@contextmanager
def _locked(file: int, byte: int) -> Iterator[None]:
    """Hold the lock of processes that join. Raises `SetupError` where another one keeps it."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            break
        except OSError as error:
            if time.monotonic() > end:
                raise SetupError("another process holds the lock of the board of priorities") from error
            time.sleep(1e-3)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)
