"""Read .npz files that may be damaged or malicious: headers are checked before anything is allocated or executed."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from vkernels.ir.errors import FileError

CHUNK = 1 << 20
"""Elements that are skipped per read."""


UNREADABLE = (ValueError, SyntaxError, TokenError, TypeError, RecursionError, OverflowError)
"""Exceptions of NumPy's header parser, which evaluates a line of Python."""


def read_arrays(path: Path, **wanted: tuple[DTypeLike, int]) -> dict[str, NDArray[Any]]:
    """The named arrays of a .npz, each of a dtype that casts safely to the one given, and of the given rank.

    They are converted to the requested dtype. Raises `FileError`, naming file and array, if the file is missing,
    truncated or no archive, and if an array is missing, pickled, or of another dtype or rank.
    """
    with _refusing(path), zipfile.ZipFile(path) as archive:
        return {name: _read(archive, path, name, *form) for name, form in wanted.items()}


class ArrayStream:
    """A one-dimensional array of a .npz file, read a part at a time from front to back.

    `size`: number of elements. Raises as `read_arrays`, on opening or reading. Not thread-safe.
    """

    def __init__(self, path: Path, name: str, dtype: DTypeLike):
        self._path, self._name, self._dtype = path, name, np.dtype(dtype)
        self._open()

    def _open(self) -> None:
        with _refusing(self._path):
            archive = zipfile.ZipFile(self._path)  # open as long as the stream is
            self._stream, shape, _, self._found = _opened(archive, self._path, self._name, self._dtype, 1)
        self.size, self._at = shape[0], 0

    def read(self, first: int, count: int) -> NDArray[Any]:
        """`count` elements from `first` on. Reading backwards reopens the file."""
        if first < self._at:
            self._stream.close()
            self._open()
        with _refusing(self._path):
            while self._at < first:
                self._at += self._take(min(first - self._at, CHUNK)).size
            array = self._take(count)
        self._at += count
        return array.astype(self._dtype, copy=False)

    def _take(self, count: int) -> NDArray[Any]:
        data = self._stream.read(count * self._found.itemsize)
        if len(data) < count * self._found.itemsize:
            raise FileError(f"{self._path}: array `{self._name}` ends too early")
        return np.frombuffer(data, self._found)


_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OverflowError, RuntimeError, UnicodeDecodeError,
)  # fmt: skip
"""What `zipfile` raises for files that are damaged; `NotImplementedError` is a `RuntimeError`."""


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise FileError(f"{path}: not a whole .npz file: {error}") from error


def _read(archive: zipfile.ZipFile, path: Path, name: str, dtype: DTypeLike, rank: int) -> NDArray[Any]:
    stream, shape, fortran, found = _opened(archive, path, name, dtype, rank)
    with stream:
        data = np.frombuffer(stream.read(), found)
    array: NDArray[Any] = data.reshape(shape, order="F" if fortran else "C").astype(dtype, copy=False)
    return array


def _opened(
    archive: zipfile.ZipFile, path: Path, name: str, dtype: DTypeLike, rank: int
) -> tuple[IO[bytes], tuple[int, ...], bool, np.dtype[Any]]:
    """The stream of an array after its checked header, its shape, order and dtype."""
    member = f"{name}.npy"
    if member not in archive.namelist():
        found = ", ".join(f"`{n.removesuffix('.npy')}`" for n in archive.namelist()[:8]) or "nothing"
        raise FileError(f"{path}: there is no array `{name}` in it; it holds {found}")
    stream = archive.open(member)
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, found_dtype = read(stream)
    except UNREADABLE as error:
        raise FileError(f"{path}: array `{name}` is damaged: {error}") from error
    _check(path, name, shape, found_dtype, np.dtype(dtype), rank)
    size = found_dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
    if archive.getinfo(member).file_size - stream.tell() != size:
        raise FileError(f"{path}: array `{name}` says it has the shape {shape}, which its length does not fit")
    return stream, shape, fortran, found_dtype


def _check(
    path: Path, name: str, shape: tuple[int, ...], found: np.dtype[Any], wanted: np.dtype[Any], rank: int
) -> None:
    if found.hasobject or not np.can_cast(found, wanted, "safe"):
        raise FileError(f"{path}: array `{name}` holds {found}, not {wanted}")
    if min(shape, default=0) < 0:
        raise FileError(f"{path}: array `{name}` is damaged: its shape is {shape}")
    if len(shape) != rank:
        raise FileError(f"{path}: array `{name}` has {len(shape)} dimensions, not {rank}: its shape is {shape}")
