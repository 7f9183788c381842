"""A compiled kernel's loops, read from its binary."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from ..artifact_cache import ArtifactCache, hash_of
from ..backends.triton_adapter import Binary
from .find_loops import find_loops
from .loop_use import LoopUse, use_of
from .read_amdgcn import read_amdgcn
from .read_sass import disassemble, read_sass


@dataclass(frozen=True)
class KernelCode:
    """A kernel's regions: first the code outside loops, then each loop, outer ones before inner ones.

    `warps`: of a program. `threads`: of a warp.
    """

    architecture: str
    warps: int
    threads: int
    regions: tuple[LoopUse, ...]

    @property
    def innermost(self) -> tuple[LoopUse, ...]:
        """The loops that have none inside."""
        return tuple(each for each in self.regions if each.parent is not None and each.is_innermost)


def read_code(binary: Binary, seconds: float = 60) -> KernelCode:
    """The loops of a binary. `seconds`: at most so long for the disassembler.

    Raises `FileError` for a binary that is damaged or cannot be disassembled, `SetupError` without a disassembler.
    """
    if binary.architecture.startswith("sm_"):
        instructions = read_sass(disassemble(binary.code, seconds), binary.name)
    else:
        instructions = read_amdgcn(binary.assembly, binary.name)
    regions = tuple(use_of(region, binary.architecture) for region in find_loops(instructions))
    return KernelCode(binary.architecture, binary.warps, binary.threads // binary.warps, regions)


def read_code_cached(binary: Binary, artifacts: ArtifactCache, seconds: float = 60) -> KernelCode:
    """The same, kept with other artifacts; raises as `read_code`."""
    identity = hashlib.sha256(binary.code + binary.assembly.encode()).hexdigest()
    parts = [hash_of("compiler/binaries/*.py"), binary.architecture, binary.name, binary.warps, identity]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    code: KernelCode | None = artifacts.get(key, KernelCode)
    if code is None:
        code = read_code(binary, seconds)
        artifacts.put(key, code)
    return code
