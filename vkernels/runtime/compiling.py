"""From a kernel's IR, a plan and facts to native code; every stage can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.text import print_module

from .protocols import CompiledLike

if TYPE_CHECKING:
    from vkernels.ir.lowering.lower_to_llvm import Lowered


@dataclass(frozen=True)
class Compiled:
    """Native code, and what it was made from: the plan, the facts it relies on, and the text of each stage if kept."""

    native: CompiledLike
    plan: Plan
    facts: Facts
    stages: Mapping[str, str] = field(default_factory=dict)


def compile_kernel(module: ModuleOp, plan: Plan, facts: Facts, keep: bool = False) -> Compiled:
    """Compile the one kernel of a module, which is not changed, for the CPU. `keep` keeps the text of every stage.

    Raises `PlanError` for a plan that the kernel cannot have, also where it needs to know more sizes.
    """
    from .compile.cpu import compile_lowered

    stages: dict[str, str] = {}
    lowered = _lower(module, plan, facts, stages) if keep else _lowered_once(module, plan, facts)
    native = compile_lowered(lowered, on_disk=True)
    if keep:
        stages |= {"mlir": native.mlir, "llvm": native.llvm_ir, "assembly": native.assembly}
    return Compiled(native, plan, facts, stages)


def _lowered_once(module: ModuleOp, plan: Plan, facts: Facts) -> Lowered:
    """As an earlier process kept it on disk, or kept there now."""
    from vkernels.ir.lowering.lower_to_llvm import Lowered

    from .compile.cpu import host_register_bytes, host_scales
    from .compile.kept import keep, kept, lowering_key

    host = [host_register_bytes(), host_scales()]
    key = lowering_key(host, print_module(module), plan_to_json(plan), asdict(facts))
    lowered = kept(key, Lowered)
    if lowered is None:
        lowered = _lower(module, plan, facts)
        keep(key, lowered)
    return lowered


def _lower(module: ModuleOp, plan: Plan, facts: Facts, stages: dict[str, str] | None = None) -> Lowered:
    """Through all passes. `stages`: where the text of the IR goes after each, if it is wanted."""
    from vkernels.ir.passes.apply_plan import apply_plan
    from vkernels.ir.passes.block_sums import block_sums
    from vkernels.ir.passes.expand_math import expand_math
    from vkernels.ir.passes.split_phases import split_phases

    from .compile.cpu import host_scales, lower_for_cpu

    def told(name: str, stage: ModuleOp) -> None:
        if stages is not None:
            stages[name] = print_module(stage)

    told("as-written", module)
    phases = module.clone()
    split_phases(phases)
    told("after-split-phases", phases)
    mapped = apply_plan(phases, plan, facts)
    told("after-apply-plan", mapped)
    block_sums(mapped)
    told("after-block-sums", mapped)
    expand_math(mapped, scales=host_scales())
    told("after-expand-math", mapped)
    return lower_for_cpu(mapped)
