"""Compile a kernel's IR, by a plan and facts, to GPU code; no device is needed, and every stage can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import MappedOp
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir, TtirLaunch, lower_to_ttir, print_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.text import print_module

from .backends.triton_adapter import Binary, GpuOptions, compile_ttir
from .workers.jobs import CompileJob

Compiler = Callable[[str, str, GpuOptions], Binary]
"""Makes a binary of TTIR text, an architecture and options."""


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


@dataclass(frozen=True)
class Lowering:
    """A kernel's launches as TTIR, with the plan and facts that they were made for, and stages as in `CompiledGpu`."""

    lowered: LoweredTtir
    plan: Plan
    facts: Facts
    stages: Mapping[str, str] = field(default_factory=dict, repr=False)

    def jobs(self, architecture: str) -> tuple[CompileJob, ...]:
        """The compile jobs for an architecture, one for each launch."""
        return tuple(
            CompileJob(
                print_ttir(launch.module),
                architecture,
                GpuOptions(self.plan.warps, self.plan.stages, launch.scratch_bytes),
            )
            for launch in self.lowered.launches
        )


def lower_for(module: ModuleOp, plan: Plan, facts: Facts, keep: bool = False) -> Lowering:
    """Lower the one kernel of a module, which is not changed, for any GPU. `keep` keeps the text of every stage.

    Raises `PlanError` for a plan that the kernel cannot have, also where it needs to know more sizes, and
    `UnsupportedError` for what has no form on a GPU.
    """
    from vkernels.ir.pipeline import gpu_pipeline, run_passes

    texts: dict[str, str] = {}

    def keep_text(stage: str, reached: ModuleOp) -> None:
        texts[stage] = print_module(reached)

    mapped = run_passes(gpu_pipeline(plan, facts), module, keep_text if keep else None)
    (kernel,) = (op for op in mapped.ops if isinstance(op, MappedOp))
    lowered = lower_to_ttir(kernel, plan.resident_programs)
    if keep:
        texts["ttir"] = _joined(lowered, [print_ttir(launch.module) for launch in lowered.launches])
    return Lowering(lowered, plan, facts, texts)


def compile_for(
    module: ModuleOp,
    plan: Plan,
    facts: Facts,
    architecture: str,
    keep: bool = False,
    compiler: Compiler = compile_ttir,
) -> CompiledGpu:
    """Compile the one kernel of a module, which is not changed, for an architecture: `sm_90`, `gfx942`.

    `keep` keeps the text of every stage. Raises what `lower_for` and the compiler raise.
    """
    lowering = lower_for(module, plan, facts, keep)
    jobs = lowering.jobs(architecture)
    binaries = tuple(compiler(job.text, job.architecture, job.options) for job in jobs)
    return with_binaries(lowering, architecture, binaries, keep)


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
