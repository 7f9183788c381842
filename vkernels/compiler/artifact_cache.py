"""Compiled artifacts on disk, for later processes: lowered kernels, native code, binaries and what these take."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vkernels.ir.disk_cache import DiskCache

from .records import from_bytes, to_bytes

_PACKAGE = Path(__file__).parents[1]


@cache
def hash_of(pattern: str) -> str:
    """A SHA-256, in hexadecimal, of the package's files that match a pattern: `ir/**/*.py`."""
    paths = sorted(_PACKAGE.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"the package has no files {pattern}")
    ours = hashlib.sha256()
    for path in paths:
        ours.update(path.read_bytes())
    return ours.hexdigest()


@dataclass(frozen=True)
class NativeCode:
    """An object file, and what it was made from: LLVM IR as it was, and optimised, as bitcode."""

    llvm_ir: str
    bitcode: bytes
    object: bytes


class ArtifactCache:
    """Records by key, on disk; without a `disk` nothing is stored."""

    def __init__(self, disk: DiskCache | None):
        self._disk = disk

    def get(self, key: str, *kinds: type[Any]) -> Any:
        """The record of a key; a damaged one, or one of other kinds, counts as a miss: None."""
        data = None if self._disk is None else self._disk.get(key)
        try:
            return None if data is None else from_bytes(data, *kinds)
        except ValueError:
            return None

    def put(self, key: str, record: object) -> bool:
        """Store a record for other processes; whether it is there."""
        return self._disk is not None and self._disk.put(key, to_bytes(record))


def code_key(text: str, processor: str, features: str) -> str:
    """The key of a lowered kernel's native code; `text`: its MLIR."""
    return _key(_compiler(), processor, features, text)


def lowering_key(*parts: object) -> str:
    """The key of a lowered kernel. `parts`: what it depends on besides our own code, as values that JSON can hold."""
    return _key(_passes(), *parts)


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _compiler() -> list[str]:
    """Versions of what makes native code, and our own code around them."""
    return [version("llvmlite"), version("triton"), hash_of("compiler/backends/*.py")]


@cache
def _passes() -> list[str]:
    """Versions of what lowers kernels, and our own code that does."""
    return [version("xdsl"), hash_of("ir/**/*.py"), hash_of("compiler/compile_cpu.py")]
