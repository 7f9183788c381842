"""Read a kernel's arguments from a file of NumPy arrays (.npz). Nothing is unpickled, executed or unpacked to disk."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from vkernels.ir.errors import FileError

ENDING = ".npz"
MOST_BYTES, MOST_ARRAYS = 1 << 28, 256
"""Of all arrays together, unpacked; an interpreter would take hours for more."""

MOST_HEADER = 10_000
"""Bytes of the header of an array, which NumPy parses as a Python literal."""

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError, EOFError, OSError, OverflowError,
    MemoryError, LookupError, AttributeError, RuntimeError, ValueError, TypeError,
)  # fmt: skip
"""What `zipfile` and NumPy raise for files that are damaged, or made to do harm."""

_BITS_OF_BF16 = np.dtype("V2")
"""How NumPy writes an array of bfloat16 of other packages."""


def inputs_shown(inputs: str) -> str:
    """What inputs are called in messages: a file, or the call of a function."""
    return inputs if inputs.endswith(ENDING) else f"{inputs}()"


def read_inputs(path: Path) -> dict[str, Any]:
    """The arrays of a file, by name; an array without dimensions as a number, bfloat16 as its bits in uint16.

    Raises `FileError` for what is no such file, has objects in it, or is too large.
    """
    if not path.is_file():
        raise FileError(f"{path}: there is no such file")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check(path, entries)
            return {entry.filename.removesuffix(".npy"): _read(path, archive, entry) for entry in entries}
    except _DAMAGE as error:
        said = f"{error}".partition("\n")[0][:200] or type(error).__name__
        raise FileError(f"{path}: cannot be read as arrays that numpy.savez wrote: {said}") from None


def _check(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    """Raise `FileError` for names that no argument has, and for more than is read."""
    names = [entry.filename for entry in entries]
    if len(names) > MOST_ARRAYS:
        raise FileError(f"{path}: {len(names)} arrays; at most {MOST_ARRAYS} are read")
    if wrong := [name for name in names if not (name.endswith(".npy") and name.removesuffix(".npy").isidentifier())]:
        raise FileError(f"{path}: {wrong[0]!r} is no name of an argument with .npy")
    if len(set(names)) < len(names):
        raise FileError(f"{path}: two arrays have the same name")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise FileError(f"{path}: packed in a way that numpy.savez does not use")
    if (total := sum(entry.file_size for entry in entries)) > MOST_BYTES:
        raise FileError(f"{path}: {total:,} bytes of arrays; at most {MOST_BYTES:,} are read")


def _read(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    """One array, in memory of its own that may be written to."""
    with archive.open(entry) as stream:
        shape, is_fortran, dtype = _header(stream)
        if dtype.kind not in "biuf" and dtype != _BITS_OF_BF16:
            what = "Python objects" if dtype.hasobject else f"elements of {dtype}"
            raise FileError(f"{path}: {entry.filename} has {what}; numbers and booleans are read")
        data = stream.read()
    if any(length < 0 for length in shape) or len(data) != prod(shape) * dtype.itemsize:
        raise FileError(f"{path}: {entry.filename} has {len(data)} bytes, which are no {list(shape)} of {dtype}")
    array = np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if is_fortran else "C")
    if dtype == _BITS_OF_BF16:
        array = array.view(np.uint16)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array.item() if not shape else array


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first dimension is fastest, and dtype."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of an array")
    shape, is_fortran, dtype = readers[version](stream, max_header_size=MOST_HEADER)
    return shape, is_fortran, dtype
