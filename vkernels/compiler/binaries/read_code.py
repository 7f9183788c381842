"""A compiled kernel's loops, read from its binary."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from vkernels.ir.errors import FileError

from ..artifact_cache import ArtifactCache, hash_of
from ..backends.resources import Resources, read_resources
from ..backends.triton_adapter import Binary
from ..records import to_bytes
from .find_loops import find_loops, find_versions
from .loop_use import LoopUse, use_of
from .read_amdgcn import read_amdgcn
from .read_sass import disassemble, read_sass
from .roles import warps_of_roles
from .shared_reads import distinct_part


@dataclass(frozen=True)
class KernelCode:
    """A kernel's regions: first the code outside loops, then each loop, outer ones before inner ones.

    `warps`: of a program. `threads`: of a warp. `distinct`: the part of what threads load from shared memory in loops
    without matrix instructions that is distinct within a warp. `versions`: parts of the first region of which a program
    runs one or another.
    """

    architecture: str
    warps: int
    threads: int
    regions: tuple[LoopUse, ...]
    distinct: float = 1.0
    versions: tuple[LoopUse, ...] = ()

    @property
    def innermost(self) -> tuple[LoopUse, ...]:
        """The loops that have none inside."""
        return tuple(each for each in self.regions if each.parent is not None and each.is_innermost)


def read_code(binary: Binary, seconds: float = 60, disassembly: str = "") -> KernelCode:
    """The loops of a binary. `seconds`: at most so long for the disassembler. `disassembly`: where it is known already.

    Raises `FileError` for a binary that is damaged or cannot be disassembled, `SetupError` without a disassembler.
    """
    if binary.architecture.startswith("sm_"):
        instructions = read_sass(disassembly or disassemble(binary.code, seconds), binary.name)
    else:
        instructions = read_amdgcn(binary.assembly, binary.name)
    found = find_loops(instructions)
    shares = warps_of_roles(found, binary.ttgir)
    regions = tuple(use_of(region, binary.architecture, binary.warps, shares.get(region.role, 0)) for region in found)
    threads = binary.threads // binary.warps
    versions = tuple(use_of(each, binary.architecture, binary.warps) for each in find_versions(instructions))
    return KernelCode(binary.architecture, binary.warps, threads, regions, distinct_part(binary.ttgir), versions)


@dataclass(frozen=True)
class BinaryReading:
    """What a binary takes, and its code; None and why where that cannot be read."""

    resources: Resources
    code: KernelCode | None
    unread: str = ""


def read_binary(binary: Binary, artifacts: ArtifactCache, seconds: float = 60) -> BinaryReading:
    """Both, kept with other artifacts: disassembling takes longer than all else. One disassembly serves both.

    Raises `FileError` and `SetupError` as `read_resources`.
    """
    identity = hashlib.sha256(to_bytes(binary)).hexdigest()
    ours = [hash_of(f"compiler/{files}") for files in ("binaries/*.py", "backends/resources/*.py")]
    key = hashlib.sha256(json.dumps([*ours, identity]).encode()).hexdigest()
    reading: BinaryReading | None = artifacts.get(key, BinaryReading)
    if reading is None:
        reading = _read(binary, seconds)
        artifacts.put(key, reading)
    return reading


def _read(binary: Binary, seconds: float) -> BinaryReading:
    disassembly, code, unread = "", None, ""
    try:
        if binary.architecture.startswith("sm_"):
            disassembly = disassemble(binary.code, seconds)
        code = read_code(binary, seconds, disassembly)
    except FileError as error:
        unread = str(error)
    return BinaryReading(read_resources(binary, seconds, disassembly), code, unread)
