"""Compile a kernel's IR, by a plan and facts, to GPU code; no device is needed, and every stage can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import MappedOp
from vkernels.ir.errors import FileError
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.lowering.ttir import LoweredTtir, TtirLaunch, lower_to_ttir, print_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.planning.resources import OutOfResources, misfit, spill
from vkernels.ir.tensor_formats import NO_FORMATS, TensorFormats
from vkernels.ir.text import print_module

from .backends.resources import read_taken
from .backends.triton_adapter import Binary, GpuOptions
from .plan_fallback import SpillError
from .workers.jobs import CompileJob


@dataclass(frozen=True)
class CompiledGpu:
    """Code for an architecture, and what it was made from.

    `lowered`: its launches, and what the host computes before them; `binaries`: of each launch. `stages`: the text of
    each stage if kept; where there are several launches, one after another. `loaded`: what the runtime
    loaded of it, by device.
    """

    architecture: str
    lowered: LoweredTtir
    binaries: tuple[Binary, ...]
    plan: Plan
    facts: Facts
    stages: Mapping[str, str] = field(default_factory=dict, repr=False)
    loaded: dict[int, tuple[Any, ...]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def launches(self) -> tuple[tuple[TtirLaunch, Binary], ...]:
        """Each launch with its binary, in order."""
        return tuple(zip(self.lowered.launches, self.binaries, strict=True))

    def refuse_unless_fits(self, limits: Limits) -> None:
        """Raise `OutOfResources` where a launch does not fit within a GPU's limits, and `SpillError` where all do, but
        one spills more than a chosen plan should. The binaries' own figures decide.

        Where the tables of a binary cannot be read, the device decides when it is loaded.
        """
        spilling: SpillError | None = None
        for launch, binary in self.launches:
            with suppress(FileError):
                taken = read_taken(binary)
                if short := misfit(taken, limits):
                    raise OutOfResources(short, launch.name)
                if spilling is None and (spilt := spill(taken)):
                    spilling = SpillError(spilt, launch.name, self)
        if spilling is not None:
            raise spilling


@dataclass(frozen=True)
class Lowering:
    """A kernel's launches as TTIR, with the plan and facts that they were made for, and stages as in `CompiledGpu`."""

    lowered: LoweredTtir
    plan: Plan
    facts: Facts
    stages: Mapping[str, str] = field(default_factory=dict, repr=False)

    def jobs(self, architecture: str) -> tuple[CompileJob, ...]:
        """The compile jobs for an architecture, one for each launch."""
        found = []
        for launch in self.lowered.launches:
            warps = min(self.plan.warps, launch.warps or self.plan.warps)
            options = GpuOptions(warps, self.plan.stages, launch.scratch_bytes)
            found.append(CompileJob(print_ttir(launch.module), architecture, options))
        return tuple(found)


def lower_for(
    module: ModuleOp,
    plan: Plan,
    facts: Facts,
    keep: bool = False,
    formats: TensorFormats = NO_FORMATS,
    warp: int = 32,
    is_amd: bool = False,
) -> Lowering:
    """Lower the one kernel of a module, which is not changed, for any GPU whose tensor cores take these formats
    and whose warps have so many threads. `is_amd`: for one of AMD's. `keep` keeps the text of every stage.

    Raises `PlanError` for a plan that the kernel cannot have, also where it needs to know more sizes, and
    `UnsupportedError` for what has no form on a GPU.
    """
    from vkernels.ir.pipeline import gpu_pipeline, run_passes

    texts: dict[str, str] = {}

    def keep_text(stage: str, reached: ModuleOp) -> None:
        texts[stage] = print_module(reached)

    mapped = run_passes(gpu_pipeline(plan, facts, formats, warp), module, keep_text if keep else None)
    (kernel,) = (op for op in mapped.ops if isinstance(op, MappedOp))
    # AMD's warps share the columns of a dot's result: cutting it would move it through shared memory.
    cut_for = 0 if is_amd else plan.warps * warp
    lowered = lower_to_ttir(kernel, plan.resident_programs, plan.stages, formats.adds_float8, cut_for)
    if keep:
        texts["ttir"] = _joined(lowered, [print_ttir(launch.module) for launch in lowered.launches])
    return Lowering(lowered, plan, facts, texts)


def with_binaries(lowering: Lowering, architecture: str, binaries: Sequence[Binary], keep: bool = False) -> CompiledGpu:
    """The compiled kernel, given the binaries of `lowering.jobs(architecture)`."""
    texts = dict(lowering.stages)
    if keep:
        assembly = "ptx" if architecture.startswith("sm_") else "amdgcn"
        texts["ttgir"] = _joined(lowering.lowered, [binary.ttgir for binary in binaries])
        texts[assembly] = _joined(lowering.lowered, [binary.assembly for binary in binaries])
    return CompiledGpu(architecture, lowering.lowered, tuple(binaries), lowering.plan, lowering.facts, texts)


def _joined(lowered: LoweredTtir, texts: Sequence[str]) -> str:
    """Texts of launches one after another, named where there are several."""
    if len(texts) == 1:
        return texts[0]
    names = (launch.name for launch in lowered.launches)
    return "\n".join(f"// {name}\n{text}" for name, text in zip(names, texts, strict=True))
