"""Map kernels by a plan: from `vk.kernel` to `vk.mapped`, see `docs/mapped-ir.md`.

`plan_kernel` gives axes constant sizes, groups each phase's work into loop nests, and gives homes to values that cross
phases; `check_plan` rejects impossible plans; then a new kernel is emitted: launches (`emit_packs`, `emit_k_major`,
`emit_split`, `emit_cut`, `emit_launch`), in them phases (`structure`), their nests (`nests`) and their operations
(`emit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ...dialect import KernelOp, MappedOp, PhaseOp
from ...errors import OptionError
from ...facts import Facts
from ...plan import PLAN_TYPES, Home, Plan
from ..split_phases import split_phases
from .barriers import Hazards
from .check_plan import check_plan
from .cut_launches import emit_cut
from .find_words import find_word_dots, words_in_homes
from .frames import LoopFrame
from .k_major import emit_k_major
from .launches import emit_launch
from .mapping_state import MappingState
from .packs import emit_packs
from .planned_kernel import plan_kernel
from .private_copies import emit_private
from .sizes import emit_sizes
from .split_axes import emit_split
from .structure import emit_block


@dataclass(frozen=True)
class ApplyPlan(ModulePass):
    """Replace every `vk.kernel` of a module by a `vk.mapped`, by a plan. `facts`: what the code may rely on.
    `units`: the dot units of the processor, by name. `gpu`: the code is for one, with `warp` threads in a warp.
    `overlap`: the last tile of an axis may lie over some of the tile before, which then stores the same twice.

    Raises `PlanError` where the plan does not fit the kernel.
    """

    name = "apply-plan"
    result = "mapped IR: tiles have constant sizes, chunk loops, homes and launches are there"

    plan: Plan
    facts: Facts
    units: tuple[str, ...] = ()
    gpu: bool = False
    warp: int = 32
    overlap: bool = False

    def apply(self, context: Context, module: ModuleOp) -> None:
        split_phases(module)
        block = module.body.block
        for op in [*block.ops]:
            if isinstance(op, KernelOp):
                how = self.units, self.gpu, self.warp, self.overlap
                block.insert_op_before(map_kernel(op, self.plan, self.facts, *how), op)
            block.erase_op(op)


_FACTS = {name: kind for name, kind in get_type_hints(Facts).items() if name != "strides"}


class _TextOptions(ModulePass):
    """The pass with a plan, facts and dot units given as options, for `vk-opt`.

    Options hold text: `apply-plan{tiles="i=4" chunks="j=64","k=1" homes="e=shared" lanes=j sizes="N=100"}`.
    """

    name = "apply-plan"
    units: tuple[str, ...]
    gpu: bool
    overlap: bool

    def apply(self, context: Context, module: ModuleOp) -> None:
        plan = Plan(**{name: _value(kind, getattr(self, name)) for name, kind in PLAN_TYPES.items()})
        facts = Facts(**{name: _value(kind, getattr(self, name)) for name, kind in _FACTS.items()})
        ApplyPlan(plan, facts, self.units, self.gpu, overlap=self.overlap).apply(context, module)


ApplyPlanOptions = make_dataclass(
    "ApplyPlanOptions",
    [
        (name, tuple[str, ...], ()) if get_origin(kind) in (Mapping, tuple) else (name, kind, getattr(plain, name))
        for plain, kinds in ((Plan(), PLAN_TYPES), (Facts(), _FACTS))
        for name, kind in kinds.items()
    ]
    + [("units", tuple[str, ...], ()), ("gpu", bool, False), ("overlap", bool, False)],
    bases=(_TextOptions,),
    frozen=True,
)


def apply_plan(
    module: ModuleOp, plan: Plan, facts: Facts, units: Sequence[str] = (), overlap: bool = False
) -> ModuleOp:
    """A new module with every `vk.kernel` of `module`, which is not changed, mapped by the plan.

    Kernels without phases are split into phases first. `facts`: what the compiled kernel may rely on. `units`: the
    dot units of the processor, by name. `overlap`: as `ApplyPlan` has it.
    Raises `PlanError` where the plan does not fit the kernel: an axis it does not name or that does not exist, an
    impossible home, memory for an axis whose extent the facts do not give.
    """
    if not any(isinstance(op, PhaseOp) for op in module.walk()):
        module = module.clone()
        split_phases(module)
    kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
    return ModuleOp([map_kernel(op, plan, facts, units, overlap=overlap) for op in kernels])


def map_kernel(
    kernel: KernelOp, plan: Plan, facts: Facts, units: Sequence[str] = (), gpu: bool = False, warp: int = 32,
    overlap: bool = False,
) -> MappedOp:  # fmt: skip
    """Map a kernel in phases by a plan, dots to these units where they can be. `gpu`: for one, with `warp` threads in a
    warp. `overlap`: as `ApplyPlan` has it. The kernel is not changed."""
    planned = plan_kernel(kernel, plan, facts, for_units=bool(units))
    check_plan(planned)
    names = [parameter.data for parameter in kernel.parameters]
    parameters = list(zip(names, (argument.type for argument in kernel.body.block.args), strict=True))
    mapped = MappedOp(kernel.sym_name.data, parameters, facts.to_attribute())
    mapped.location = kernel.location
    if plan.lanes is not None:
        mapped.properties["lanes"] = StringAttr(plan.lanes)
    top = LoopFrame(mapped.body.block)
    top.location = kernel.location
    top.values.update(zip(kernel.body.block.args, mapped.body.block.args, strict=True))
    state = MappingState(planned.analysis, planned.schedule, plan, facts, top, gpu, warp, overlap)
    state.words = find_word_dots(planned, units)
    state.word_homes = words_in_homes(planned, state.words)
    emit_sizes(state)
    emit_packs(state)
    emit_k_major(state)
    if planned.split_axis is not None:
        emit_split(state, planned.split_axis)
    elif plan.launches:
        emit_cut(state)
    else:
        emit = emit_private if plan.private_copies else partial(emit_launch, splits=())
        emit(state, kernel.sym_name.data, body=lambda frame: emit_block(state, frame, kernel.body.block, Hazards()))
    return mapped


def _pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    for option in options:
        if "=" not in option:
            raise OptionError(f"apply-plan: expected name=value, found {option!r}")
    return [(name, value) for name, _, value in (option.partition("=") for option in options)]


def _value(kind: Any, option: Any) -> Any:
    """The value of a field of type `kind`, as an option says it."""
    if get_origin(kind) is not Mapping:
        return option
    read = _home if get_args(kind)[1] is Home else _number
    return {name: read(name, text) for name, text in _pairs(option)}


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise OptionError(f"apply-plan: {name} is {text!r}, expected a number")
    return int(text)


def _home(name: str, text: str) -> Home:
    if text not in tuple(Home):
        raise OptionError(f"apply-plan: home {text!r} is not one of {', '.join(Home)}")
    return Home(text)


__all__ = ["ApplyPlan", "ApplyPlanOptions", "apply_plan", "map_kernel"]
