"""From a kernel's IR, a plan and facts to native code; every stage can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.text import print_module

from .protocols import CompiledLike


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
    from vkernels.ir.passes.apply_plan import apply_plan
    from vkernels.ir.passes.expand_math import expand_math
    from vkernels.ir.passes.split_phases import split_phases

    from .compile.cpu import compile_cpu, host_scales

    phases = module.clone()
    split_phases(phases)
    mapped = apply_plan(phases, plan, facts)
    stages = {"as-written": module, "after-split-phases": phases, "after-apply-plan": mapped} if keep else {}
    texts = {name: print_module(stage) for name, stage in stages.items()}
    expand_math(mapped, scales=host_scales())
    native = compile_cpu(mapped, on_disk=True)
    if keep:
        texts |= {"after-expand-math": print_module(mapped)}
        texts |= {"mlir": native.mlir, "llvm": native.llvm_ir, "assembly": native.assembly}
    return Compiled(native, plan, facts, texts)
