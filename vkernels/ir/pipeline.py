"""The passes that take a kernel, as its author wrote it, to what a backend lowers. Nothing else says their order.

`vk-opt`, `vk explain --ir` and the compilers read it here. A pass's `result` says what the IR is after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from .analyses import phases_of
from .dialect import KernelOp
from .facts import Facts
from .plan import Plan
from .tensor_formats import NO_FORMATS, TensorFormats

AS_WRITTEN = "as-written"
"""The stage before any pass."""

Observer = Callable[[str, ModuleOp], None]
"""Called with each stage's name and IR, which it must not change."""


def cpu_pipeline(plan: Plan, facts: Facts, scales: bool = False, units: tuple[str, ...] = ()) -> tuple[ModulePass, ...]:
    """The passes for a CPU, before `lower_to_llvm`. `scales`: the processor has `vk.scale` as an instruction. `units`:
    its dot units."""
    from .transforms.apply_plan import ApplyPlan
    from .transforms.block_sums import BlockSums
    from .transforms.expand_formats import ExpandFormats
    from .transforms.expand_math import ExpandMath
    from .transforms.fill_tails import FillTails
    from .transforms.keep_between_programs import KeepBetweenPrograms
    from .transforms.prefetch_rows import PrefetchRows
    from .transforms.split_phases import SplitPhases
    from .transforms.version_chunks import VersionChunks
    from .transforms.version_loops import VersionLoops
    from .transforms.version_selects import VersionSelects

    return (
        SplitPhases(),
        ApplyPlan(plan, facts, units, overlap=True),
        KeepBetweenPrograms(),
        FillTails(),
        BlockSums(),
        VersionLoops(),
        VersionSelects(),
        VersionChunks(),
        ExpandFormats(),
        PrefetchRows(),
        ExpandMath(scales),
    )


def gpu_pipeline(
    plan: Plan, facts: Facts, formats: TensorFormats = NO_FORMATS, warp: int = 32
) -> tuple[ModulePass, ...]:
    """The passes for a GPU, before `lower_to_ttir`. `formats`: what its tensor cores take; `warp`: threads of one."""
    from .transforms.apply_plan import ApplyPlan
    from .transforms.block_sums import BlockSums
    from .transforms.expand_formats import ExpandFormats
    from .transforms.expand_math import ExpandMath
    from .transforms.form_scaled_dots import FormScaledDots
    from .transforms.ignore_nan import IgnoreNan
    from .transforms.insert_barriers import InsertBarriers
    from .transforms.load_ahead import LoadAhead
    from .transforms.split_phases import SplitPhases
    from .transforms.vectorise_sums import VectoriseSums

    return (
        SplitPhases(),
        IgnoreNan(),
        ApplyPlan(plan, facts, gpu=True, warp=warp),
        FormScaledDots(formats.scaled, formats.bfloat16),
        InsertBarriers(),
        BlockSums(gpu=True, threads=warp * plan.warps),
        VectoriseSums(warp * plan.warps),
        LoadAhead(plan.stages - 1),
        ExpandFormats(not formats.float8, halves=True),
        ExpandMath(approximates=True),
    )


PASSES = {
    "apply-plan": "apply_plan:ApplyPlanOptions",
    "block-sums": "block_sums:BlockSums",
    "expand-formats": "expand_formats:ExpandFormats",
    "expand-math": "expand_math:ExpandMath",
    "fill-tails": "fill_tails:FillTails",
    "form-scaled-dots": "form_scaled_dots:FormScaledDots",
    "ignore-nan": "ignore_nan:IgnoreNan",
    "insert-barriers": "insert_barriers:InsertBarriers",
    "keep-between-programs": "keep_between_programs:KeepBetweenPrograms",
    "load-ahead": "load_ahead:LoadAhead",
    "lower-to-ttir": "lower_to_ttir:LowerToTtir",
    "prefetch-rows": "prefetch_rows:PrefetchRows",
    "split-phases": "split_phases:SplitPhases",
    "vectorise-sums": "vectorise_sums:VectoriseSums",
    "verify-mapped": "verify_mapped:VerifyMapped",
    "version-chunks": "version_chunks:VersionChunks",
    "version-loops": "version_loops:VersionLoops",
    "version-selects": "version_selects:VersionSelects",
}
"""Every pass that `vk-opt` knows, by name: the `module:Class` in `transforms/`, imported when asked for."""


def load_pass(name: str) -> type[ModulePass]:
    """Import the pass of this name; `KeyError` where `PASSES` has none."""
    module, class_ = PASSES[name].split(":")
    return cast("type[ModulePass]", getattr(import_module(f".transforms.{module}", __package__), class_))


def run_passes(passes: Sequence[ModulePass], module: ModuleOp, observe: Observer | None = None) -> ModuleOp:
    """The module after some passes; it is not changed itself. `observe`: called with every stage, also the first.

    Kernels that planning has split into phases are not split again.
    """
    result = ModuleOp([(phases_of(op) if isinstance(op, KernelOp) else op).clone() for op in module.ops])

    def between(last: ModulePass | None, reached: ModuleOp, following: ModulePass | None) -> None:
        assert observe is not None
        observe(stage_after(last), module if last is None else reached)

    PassPipeline(tuple(passes), between if observe else None).apply(Context(), result)
    return result


def stage_after(last: ModulePass | None) -> str:
    """The name of the stage that a pass leads to: `after-split-phases`; without a pass, that of the kernel itself."""
    return AS_WRITTEN if last is None else f"after-{last.name}"


def stages_of(passes: Sequence[ModulePass]) -> Mapping[str, str]:
    """The stages of a pipeline by name, in order, each with what its IR is."""
    written = "vk IR as the author wrote it: one program that holds every position of every axis"
    return {AS_WRITTEN: written, **{stage_after(each): str(getattr(each, "result", "")) for each in passes}}
