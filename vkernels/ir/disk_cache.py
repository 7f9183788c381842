"""A cache on disk, of compiled code among others: so only its owner may read and write it.

Any trouble with its files is a miss, never an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import stat
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_log = logging.getLogger(__name__)

_MAGIC = b"vkcache1"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_MAX_BYTES = 1 << 30
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.entry\.[0-9a-f]{16}")
_ABANDONED_SECONDS = 3600
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FRACTION_KEPT_WHEN_FULL = 0.9
_UNCOUNTED_WRITES = 256


class DiskCache:
    """Bytes by key, in a folder of one file an entry; those least recently used go when it holds too much.

    May be used by several threads and processes at once. Only files and folders of this user that no one else may
    write are read, since the code in them runs; links are not followed.
    """

    def __init__(self, folder: Path | None = None, limit_bytes: int = 1 << 30, *, warns: bool = True):
        """`folder`: `default_folder()` unless given; made, private to its owner, when there is something to keep.

        `limit_bytes`: of all entries, as they are on disk. `warns`: whether to warn, once, where it cannot be used; not
        for a second look at a folder that another cache warns of.
        """
        self._folder = folder
        self._limit = limit_bytes
        self._bytes = 0
        self._uncounted = _UNCOUNTED_WRITES
        self._lock = threading.Lock()
        self._has_warned = not warns

    def get(self, key: str) -> bytes | None:
        """The data of a key, or None; a key is a SHA-256 in hexadecimal."""
        name = _name(key)
        try:
            with self._opened() as folder, _file(name, folder) as file:
                data = _contents(file, key)
                if data is not None:
                    with suppress(OSError):  # a cache that is only read
                        os.utime(file)
                return data
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn_once(error)
            return None

    def put(self, key: str, data: bytes) -> bool:
        """Store data under a key, in place of older data. Returns whether it is stored."""
        name = _name(key)
        packed = zlib.compress(data, 1)
        entry = _MAGIC + _checksum(key, packed) + packed
        if len(entry) > self._limit or len(data) > _MAX_BYTES:
            return False
        try:
            self._make_folder()
            with self._opened() as folder:
                _write(name, entry, folder)
                self._count(len(entry), folder)
            return True
        except OSError as error:
            self._warn_once(error)
            return False

    def claim(self, name: str, pause: float) -> int | None:
        """An open file descriptor that holds a claim, also in processes that inherit it, until all have closed it.

        None where another process holds the claim, or began to less than `pause` seconds ago, or where the folder
        cannot be written. `name`: of the claim, letters and dashes.
        """
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            return None
        try:
            self._make_folder()
            with self._opened() as folder:
                file = os.open(f"{name}.claim", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
            if _is_ours(status) and not (status.st_size and time.time() - status.st_mtime < pause):
                os.pwrite(file, b"1", 0)
                return file
        except OSError:
            pass
        os.close(file)
        return None

    @property
    def folder(self) -> Path:
        """Where the entries are. Raises `OSError` for a user without a home."""
        return self._path()

    def _path(self) -> Path:
        return default_folder() if self._folder is None else self._folder

    def _make_folder(self) -> None:
        path = self._path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The open folder. Files are opened relative to it, so that nobody can exchange the folder meanwhile."""
        path = self._path()
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if not _is_ours(os.fstat(folder)):
                raise PermissionError(f"{path} belongs to another user or may be written by others")
            yield folder
        finally:
            os.close(folder)

    def _count(self, written: int, folder: int) -> None:
        """Add up what is written; now and then count all files again, as other processes write too."""
        with self._lock:
            self._bytes += written
            self._uncounted += 1
            if self._uncounted > _UNCOUNTED_WRITES or self._bytes > self._limit:
                self._bytes, self._uncounted = _remove_oldest(folder, self._limit), 0

    def _warn_once(self, error: OSError) -> None:
        with self._lock:
            has_warned, self._has_warned = self._has_warned, True
        if not has_warned:
            _log.warning("what is compiled is not kept on disk, or not all of it: %s", error)


def default_folder() -> Path:
    """`vkernels` in this user's folder for caches. Raises `OSError` for a user without a home."""
    import platformdirs

    folder = platformdirs.user_cache_path("vkernels")
    if not folder.is_absolute():
        raise FileNotFoundError("this user has no home for a cache")
    return folder


def _name(key: str) -> str:
    name = f"{key}.entry"
    if not _ENTRY.fullmatch(name):
        raise ValueError(f"{key!r} is no SHA-256 in hexadecimal")
    return name


def _checksum(key: str, packed: bytes) -> bytes:
    return hashlib.sha256(key.encode() + packed).digest()


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS


@contextmanager
def _file(name: str, folder: int) -> Iterator[int]:
    """A file in the folder, open to read. It does not block on a pipe of that name."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _contents(number: int, key: str) -> bytes | None:
    """The data of an entry; None where it is damaged, another user's, or no file."""
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or not _HEADER <= status.st_size <= _MAX_BYTES:
        return None
    with os.fdopen(number, "rb", closefd=False) as file:
        entry = file.read(_MAX_BYTES)
    magic, checksum, packed = entry[: len(_MAGIC)], entry[len(_MAGIC) : _HEADER], entry[_HEADER:]
    if magic != _MAGIC or not secrets.compare_digest(checksum, _checksum(key, packed)):
        return None
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, _MAX_BYTES)
    except zlib.error:
        return None
    return data if unpacking.eof else None


def _write(name: str, entry: bytes, folder: int) -> None:
    """Write a whole file or none: under another name first."""
    unfinished = f"{name}.{secrets.token_hex(8)}"
    number = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(entry)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _remove_oldest(folder: int, limit: int) -> int:
    """Remove the entries least recently used while there is too much, and unfinished files.

    Returns the bytes left. Files of other names are not ours to remove.
    """
    entries, total = [], 0
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # another process removed it
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if _ENTRY.fullmatch(name) and stat.S_ISREG(status.st_mode):
                entries.append((status.st_mtime_ns, name, status.st_size))
                total += status.st_size
            elif _UNFINISHED.fullmatch(name) and status.st_mtime < time.time() - _ABANDONED_SECONDS:
                os.unlink(name, dir_fd=folder)
    if total > limit:
        for _, name, size in sorted(entries):
            if total <= limit * _FRACTION_KEPT_WHEN_FULL:
                break
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            total -= size
    return total
