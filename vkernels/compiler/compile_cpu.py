"""Compile a kernel's IR, by a plan and facts, to native code; every stage can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.text import print_module
from vkernels.targets.instruction_sets import InstructionSet
from vkernels.targets.processors import PROCESSORS

from .artifact_cache import ArtifactCache, lowering_key
from .backends.llvm import (
    NativeKernel,
    compile_lowered,
    host_dot_units,
    host_register_bytes,
    host_scales,
    lower_for_cpu,
)


@dataclass(frozen=True)
class CompiledCpu:
    """Native code, and what it was made from: the plan, the facts it relies on, and the text of each stage if kept."""

    native: NativeKernel
    plan: Plan
    facts: Facts
    stages: Mapping[str, str] = field(default_factory=dict)

    def refuse_unless_fits(self, limits: Limits) -> None:
        """Native code always fits: what vector registers do not hold is spilled."""


def compile_kernel(
    module: ModuleOp, plan: Plan, facts: Facts, keep: bool = False, artifacts: ArtifactCache | None = None,
    register_bytes: int | None = None,
) -> CompiledCpu:  # fmt: skip
    """Compile the one kernel of a module, which is not changed, for the CPU. `keep` keeps the text of every stage.

    `artifacts`: lowered kernels and code of earlier compiles. `register_bytes`: of vectors; those that were found to
    be the fastest unless given.

    Raises `PlanError` for a plan that the kernel cannot have, also where it needs to know more sizes.
    """
    stages: dict[str, str] = {}
    lowered: LlvmModule | None = None
    key = ""
    if artifacts is not None and not keep:
        host = [register_bytes or host_register_bytes(), host_scales(), host_dot_units()]
        key = lowering_key(host, print_module(module), plan_to_json(plan), asdict(facts))
        lowered = artifacts.get(key, LlvmModule)
    if lowered is None:
        lowered = _lower(module, plan, facts, stages if keep else None, register_bytes)
        if artifacts is not None and key:
            artifacts.put(key, lowered)
    native = compile_lowered(lowered, artifacts)
    if keep:
        stages |= {"mlir": native.mlir, "llvm": native.llvm_ir, "assembly": native.assembly}
    return CompiledCpu(native, plan, facts, stages)


def assembly_for_processor(module: ModuleOp, plan: Plan, facts: Facts, limits: Limits) -> str:
    """The assembly of the one kernel of a module for the limits' processor, which need not be present.

    Raises `PlanError` for a plan that the kernel cannot have, `SetupError` for an unknown processor.
    """
    from .backends.llvm_processors import assembly_for

    known = PROCESSORS.get(limits.processor)
    has_avx512 = known is not None and "avx512vl" in known.features
    passes = cpu_pipeline(plan, facts, has_avx512, limits.dot_units)
    lowered = lower_for_cpu(run_passes(passes, module), None, limits.register_bytes, limits.dot_units)
    return assembly_for(lowered, limits.processor)


@dataclass(frozen=True)
class CpuObject:
    """Code for a CPU that need not be present, as an object file, and what it was made from."""

    lowered: LlvmModule
    object: bytes = field(repr=False)
    plan: Plan
    facts: Facts

    def refuse_unless_fits(self, limits: Limits) -> None:
        """Code for a CPU always fits."""


def object_for_instructions(
    module: ModuleOp, plan: Plan, facts: Facts, limits: Limits, instructions: InstructionSet
) -> CpuObject:
    """The object file of the one kernel of a module for CPUs with these instructions, which `limits` are of.

    Raises `PlanError` for a plan that the kernel cannot have.
    """
    from .backends.llvm_processors import object_for

    has_avx512 = "avx512vl" in instructions.features
    passes = cpu_pipeline(plan, facts, has_avx512, limits.dot_units)
    lowered = lower_for_cpu(run_passes(passes, module), None, limits.register_bytes, limits.dot_units)
    return CpuObject(lowered, object_for(lowered, instructions), plan, facts)


def _lower(
    module: ModuleOp, plan: Plan, facts: Facts, stages: dict[str, str] | None, register_bytes: int | None
) -> LlvmModule:
    """Run all passes. `stages`: takes the text of the IR after each."""

    def keep_text(stage: str, reached: ModuleOp) -> None:
        if stages is not None:
            stages[stage] = print_module(reached)

    passes = cpu_pipeline(plan, facts, host_scales(), host_dot_units())
    mapped = run_passes(passes, module, None if stages is None else keep_text)
    return lower_for_cpu(mapped, register_bytes=register_bytes)
