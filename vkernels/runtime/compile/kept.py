"""What compiling made, as it is kept on disk for later processes: lowered kernels, and their native code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TypeVar

from .cache import DiskCache
from .own_code import hash_of
from .records import from_bytes, to_bytes

Record = TypeVar("Record")


@dataclass(frozen=True)
class NativeCode:
    """An object file, and what it was made from: LLVM IR as it was, and optimised, as bitcode."""

    llvm_ir: str
    bitcode: bytes
    object: bytes


def code_key(text: str, processor: str, features: str) -> str:
    """The key of a lowered kernel's code, given as MLIR text."""
    return _key(_compiler(), processor, features, text)


def lowering_key(*parts: object) -> str:
    """The key of a lowered kernel. `parts`: all that it hangs on but our own code, as what JSON can hold."""
    return _key(_passes(), *parts)


def kept(key: str, kind: type[Record]) -> Record | None:
    """What was kept; what is damaged, or of another kind, counts as not there."""
    found = cache_on_disk()
    data = None if found is None else found.get(key)
    try:
        record: Record | None = None if data is None else from_bytes(data, kind)
    except ValueError:
        return None
    return record


def keep(key: str, record: object) -> None:
    """Keep it for other processes."""
    found = cache_on_disk()
    if found is not None:
        found.put(key, to_bytes(record))


@cache
def cache_on_disk() -> DiskCache | None:
    """Where it is kept; tests have it kept nowhere."""
    return DiskCache()


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _compiler() -> list[str]:
    """Versions of what makes native code, and our own code around them."""
    return [version("llvmlite"), version("triton"), hash_of("runtime/compile/*.py")]


@cache
def _passes() -> list[str]:
    """Versions of what lowers kernels, and our own code that does."""
    return [version("xdsl"), hash_of("ir/**/*.py"), hash_of("runtime/compiling.py")]
