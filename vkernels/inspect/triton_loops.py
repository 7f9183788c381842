"""The loops of a plain Triton kernel's binary on a device that need not be present, and the bound that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from vkernels.compiler.artifact_cache import ArtifactCache
from vkernels.compiler.backends.resources import Resources, taken_by
from vkernels.compiler.backends.triton_adapter import inlined_ttir
from vkernels.compiler.backends.triton_kernels import Configuration, jit_configurations, jit_parameters, jit_ttir
from vkernels.compiler.binaries.launch_loops import LoopReport, launch_loops
from vkernels.compiler.binaries.read_code import read_binary
from vkernels.compiler.binaries.source_loops import Length
from vkernels.compiler.binaries.static_bound import StaticBound
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileJob, NoBinaryError
from vkernels.ir.analysis.needs.device import UNKNOWN_TRIPS
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import FileError
from vkernels.ir.planning.resources import OutOfResources, held, misfit
from vkernels.targets import Target, limits_of, target_named


@dataclass(frozen=True)
class TritonLoops:
    """`loops`: the innermost ones. `bound`: of a launch's time without that of device memory; None without a grid.
    `resources`: what a program takes. `blocks`: programs that one multiprocessor holds at once."""

    loops: tuple[LoopReport, ...]
    bound: StaticBound | None
    resources: Resources
    blocks: int


def loops_of_triton(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    target: str | Target,
    *,
    grid: Sequence[int] | None = None,
    arguments: Mapping[str, int] | None = None,
    divisible: Sequence[str] = (),
    warps: int | None = None,
    stages: int | None = None,
    unknown_length: Length = UNKNOWN_TRIPS,
    seconds: float = 120.0,
    pool: CompilePool | None = None,
    cache: DiskCache | None = None,
) -> TritonLoops:
    """Compile a `triton.jit` function for a device and read its loops; nothing runs, and no GPU is needed.

    `types`: Triton's spelling of the parameters that a launch passes (`"*fp16"`, `"i32"`); `constants`: of the others.
    `target`: a device of `vk targets`, or its name. `grid`: programs by axis; `arguments`: integers that a launch
    passes, by name: from them follow the trips of loops and the bound. `divisible`: parameters that are multiples of
    16. `warps`, `stages`: as the kernel's first configuration says, or as Triton does, where not given.
    `unknown_length`: of loops whose bounds are in memory. `seconds`: at most so long for the compiler, and for the
    disassembler. `pool`: compiles in it; else in a process of this call's. `cache`: keeps binaries and what was read.

    Raises `ArgumentError` where a constant is missing, `TritonSourceError` where Triton's front end refuses the kernel,
    `NoBinaryError` where its compiler gives none, `OutOfResources` where a program does not fit on the device, and
    `FileError` for a binary that cannot be read.
    """
    device = target_named(target) if isinstance(target, str) else target
    architecture, limits = device.architecture, limits_of(device)
    given = jit_configurations(kernel)[0]
    configuration = Configuration(given.constants, warps or given.warps, stages or given.stages, given.settings)
    text, options = jit_ttir(kernel, types, constants, tuple(divisible), configuration, architecture)
    text = inlined_ttir(text, architecture)
    with ExitStack() as stack:
        workers = pool or stack.enter_context(CompilePool(1, seconds))
        (done,) = compile_cached([CompileJob(text, architecture, options)], workers, cache)
    if not isinstance(done.outcome, CompiledBinary):
        raise NoBinaryError(f"there is no binary for {architecture}: {done.outcome.message}")
    binary = done.outcome.binary
    reading = read_binary(binary, ArtifactCache(cache), seconds)
    if reading.code is None:
        raise FileError(reading.unread)
    taken = taken_by(reading.resources, binary.threads)
    if (short := misfit(taken, limits)) is not None:
        raise OutOfResources(short)
    blocks = held(taken, limits).blocks
    passed = tuple(each.name for each in jit_parameters(kernel) if each.name in types)
    found = launch_loops(reading.code, text, limits, blocks, grid, arguments, unknown_length, passed)
    return TritonLoops(found.loops, found.bound, reading.resources, blocks)
