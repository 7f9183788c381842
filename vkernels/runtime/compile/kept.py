"""Native code as it is kept on disk: made once for a lowered kernel, a processor and the libraries that made it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from .cache import DiskCache
from .records import from_bytes, to_bytes


@dataclass(frozen=True)
class NativeCode:
    """An object file, and what it was made from: LLVM IR as it was, and optimised, as bitcode."""

    llvm_ir: str
    bitcode: bytes
    object: bytes


def key_of(text: str, processor: str, features: str) -> str:
    """The key of a lowered kernel's code, given as MLIR text."""
    return hashlib.sha256(json.dumps([_compiler(), processor, features, text]).encode()).hexdigest()


def kept(key: str) -> NativeCode | None:
    """What was kept; what is damaged counts as not there."""
    found = cache_of_code()
    data = None if found is None else found.get(key)
    try:
        code: NativeCode | None = None if data is None else from_bytes(data, NativeCode)
    except ValueError:
        return None
    return code


def keep(key: str, code: NativeCode) -> None:
    """Keep it for other processes."""
    found = cache_of_code()
    if found is not None:
        found.put(key, to_bytes(code))


@cache
def cache_of_code() -> DiskCache | None:
    """Where code is kept; tests have it kept nowhere."""
    return DiskCache()


@cache
def _compiler() -> list[str]:
    """Versions of what makes native code, and our own code around them."""
    ours = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        ours.update(path.read_bytes())
    return [version("llvmlite"), version("triton"), ours.hexdigest()]
