"""NumPy's .npz files, read with suspicion: nothing is believed, run or allocated before its header is checked."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from vkernels.ir.errors import FileError


def read_arrays(path: Path, **wanted: tuple[DTypeLike, int]) -> dict[str, NDArray[Any]]:
    """The named arrays of a .npz, each of a dtype that casts safely to the one given, and of the given rank.

    They come in the dtype asked for. `FileError`, which names file and array, where the file is missing,
    truncated or no archive, and where an array is missing, pickled, or of another dtype or rank.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: _read(archive, path, name, *form) for name, form in wanted.items()}
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileError(f"{path}: not a whole .npz file: {error}") from error


def _read(archive: zipfile.ZipFile, path: Path, name: str, dtype: DTypeLike, rank: int) -> NDArray[Any]:
    member = f"{name}.npy"
    if member not in archive.namelist():
        found = ", ".join(f"`{n.removesuffix('.npy')}`" for n in archive.namelist()[:8]) or "nothing"
        raise FileError(f"{path}: there is no array `{name}` in it; it holds {found}")
    try:
        with archive.open(member) as stream:
            shape, fortran, found_dtype = _header(stream)
            _check(path, name, shape, found_dtype, np.dtype(dtype), rank)
            size = found_dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
            if archive.getinfo(member).file_size - stream.tell() != size:
                raise FileError(f"{path}: array `{name}` says it has the shape {shape}, which its length does not fit")
            data = np.frombuffer(stream.read(), found_dtype)
    except ValueError as error:
        raise FileError(f"{path}: array `{name}` is damaged: {error}") from error
    array: NDArray[Any] = data.reshape(shape, order="F" if fortran else "C").astype(dtype, copy=False)
    return array


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return shape, fortran, dtype


def _check(
    path: Path, name: str, shape: tuple[int, ...], found: np.dtype[Any], wanted: np.dtype[Any], rank: int
) -> None:
    if found.hasobject or not np.can_cast(found, wanted, "safe"):
        raise FileError(f"{path}: array `{name}` holds {found}, not {wanted}")
    if min(shape, default=0) < 0:
        raise FileError(f"{path}: array `{name}` is damaged: its shape is {shape}")
    if len(shape) != rank:
        raise FileError(f"{path}: array `{name}` has {len(shape)} dimensions, not {rank}: its shape is {shape}")
