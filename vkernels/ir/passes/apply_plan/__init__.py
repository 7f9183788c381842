"""Map kernels by a plan: from `vk.kernel` to `vk.mapped`, as `docs/mapped-ir.md` says.

Axes get constant sizes (`axes`); what each phase computes becomes loop nests, and what crosses phases gets a
home where computing it again would be wrong (`schedule`); then everything is made anew, nest by nest
(`structure`, `nests`, `emit`, `access`), inside launches (`launches`, `split_axes`, `packs`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from ...dialect import AccessOp, KernelOp, MappedOp, PhaseOp, SizeOp, TensorArgumentType
from ...errors import PlanError
from ...facts import Facts
from ...plan import Plan
from ..split_phases import split_phases
from .axes import known_value, resolve_axes
from .barriers import Hazards
from .check_programs import check_programs
from .choose_homes import make_schedule
from .copies import find_copies
from .cut_launches import emit_cut
from .emit import emit_here
from .frames import Frame
from .launches import emit_launch
from .packs import emit_packs
from .reading import Reading
from .split_axes import emit_split
from .structure import emit_block
from .work import Work


def apply_plan(module: ModuleOp, plan: Plan, facts: Facts) -> ModuleOp:
    """A new module with every `vk.kernel` of `module`, which is not changed, mapped by the plan.

    Kernels without phases are split into phases first. `facts` are what the compiled kernel may rely on.
    Raises `PlanError` where the plan does not fit the kernel: an axis it does not name or that does not exist, a
    home that cannot be, memory for an axis whose extent the facts do not give.
    """
    if not any(isinstance(op, PhaseOp) for op in module.walk()):
        module = module.clone()
        split_phases(module)
    return ModuleOp([_map_kernel(op, plan, facts) for op in module.body.block.ops if isinstance(op, KernelOp)])


def _map_kernel(kernel: KernelOp, plan: Plan, facts: Facts) -> MappedOp:
    reading = Reading(kernel, resolve_axes(kernel, plan, facts))
    check_programs(reading)
    schedule = make_schedule(reading, plan, facts, find_copies(reading, plan))
    names = [parameter.data for parameter in kernel.parameters]
    parameters = list(zip(names, (argument.type for argument in kernel.body.block.args), strict=True))
    mapped = MappedOp(kernel.sym_name.data, parameters, facts.to_attribute())
    mapped.location = kernel.location
    if plan.lanes is not None:
        mapped.properties["lanes"] = StringAttr(plan.lanes)
    top = Frame(mapped.body.block)
    top.location = kernel.location
    top.values.update(zip(kernel.body.block.args, mapped.body.block.args, strict=True))
    work = Work(reading, schedule, plan, facts, top)
    _emit_sizes(work, kernel)
    emit_packs(work)
    split = [axis for axis in reading.axes.values() if axis.programs > 1]
    if split and plan.launches:
        raise PlanError(f"the plan splits axis {split[0].name} over programs, which makes launches; it names others")
    if split and plan.online:
        raise PlanError(f"the plan goes online along {plan.online[0]} and splits {split[0].name}: not both at once yet")
    if split:
        emit_split(work, split[0])
    elif plan.launches:
        emit_cut(work)
    else:
        emit_launch(work, kernel.sym_name.data, (), lambda frame: emit_block(work, frame, kernel.body.block, Hazards()))
    return mapped


def _emit_sizes(work: Work, kernel: KernelOp) -> None:
    """Sizes, and the i64 arithmetic on them, at the top level; what facts know is a constant."""
    for op in kernel.body.block.ops:
        if not _is_integer_arithmetic(op):
            continue
        result = op.results[0]
        known = known_value(result, work.facts)
        if known is not None:
            work.top.values[result] = work.top.number(known)
        elif isinstance(op, SizeOp):
            made = work.top.values[result] = work.top.add(SizeOp(op.size.data))
            made.name_hint = op.size.data
        elif all(work.top.find(operand) is not None for operand in op.operands):
            work.top.location = op.location
            emit_here(work, work.top, op)
    _emit_guarded_sizes(work, kernel)


def _emit_guarded_sizes(work: Work, kernel: KernelOp) -> None:
    """The sizes that guards compare with, where neither facts nor the kernel itself say them."""
    named = {op.size.data for op in kernel.body.block.ops if isinstance(op, SizeOp)} | set(work.facts.sizes)
    for op in kernel.walk():
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType):
            for dimension in op.guarded_dimensions:
                size = op.base.type.shape[dimension]
                if isinstance(size, str) and size not in named:
                    named.add(size)
                    work.top.add(SizeOp(size)).name_hint = size


def _is_integer_arithmetic(op: Operation) -> bool:
    if isinstance(op, SizeOp):
        return True
    is_arith = op.name.startswith("arith.") and len(op.results) == 1 and not op.regions
    return is_arith and all(_is_i64(value) for value in (*op.operands, *op.results))


def _is_i64(value: SSAValue) -> bool:
    return value.type == i64


__all__ = ["apply_plan"]
