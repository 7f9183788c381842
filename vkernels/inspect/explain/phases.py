"""What each phase does, and the source lines that it comes from."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from vkernels.ir.analyses import phases_of as split
from vkernels.ir.analysis.needs import Needs, NeedsUse
from vkernels.ir.dialect import (
    AccessOp,
    DotOp,
    GatherOp,
    KernelOp,
    LoadOp,
    PhaseOp,
    ReductionOp,
    ScanByOp,
    ScanOp,
    ScatterOp,
    ScratchOp,
)
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.transforms.apply_plan.find_words import find_word_dots
from vkernels.ir.transforms.apply_plan.planned_kernel import plan_kernel

from .explanation import Phase, SourceLine

MAX_SOURCE_LINES = 400
NOTHING = ("computes element by element",)


def in_phases(module: ModuleOp) -> ModuleOp:
    """Return a copy of a module with its kernel split into phases."""
    return ModuleOp([split(op).clone() if isinstance(op, KernelOp) else op.clone() for op in module.ops])


def phase_ops(kernel: KernelOp) -> Mapping[str, PhaseOp]:
    """Return the phases of a kernel by name, in program order."""
    return {op.phase.data: op for op in kernel.walk() if isinstance(op, PhaseOp)}


def phases_of(kernel: KernelOp) -> tuple[Phase, ...]:
    """Return each phase in program order, with what it does."""
    return tuple(
        Phase(name, (), tuple(dict.fromkeys(filter(None, (_action(kernel, op) for op in phase.walk())))) or NOTHING)
        for name, phase in phase_ops(kernel).items()
    )


def with_needs(phases: Sequence[Phase], needs: Needs, use: NeedsUse) -> tuple[Phase, ...]:
    """Return the phases with the needs of each."""
    axes = {phase.name: phase.axes for phase in needs.phases}
    taken = {phase.name: phase for phase in use.phases}
    return tuple(
        replace(
            phase,
            axes=axes[phase.name],
            registers=float(taken[phase.name].registers_a_thread),
            shared_bytes=float(taken[phase.name].shared_bytes),
            tensor_memory=float(taken[phase.name].tensor_memory_columns),
            read_bytes=float(taken[phase.name].global_read_bytes),
            written_bytes=float(taken[phase.name].global_write_bytes),
            shared_moved=float(taken[phase.name].shared_bytes_moved),
            swap_moved=float(taken[phase.name].swap_bytes_moved),
            operations=float(taken[phase.name].operations),
            tensor_operations=float(taken[phase.name].tensor_operations),
        )
        for phase in phases
    )


def on_units(
    phases: Sequence[Phase], kernel: KernelOp, plan: Plan, facts: Facts, units: Sequence[str]
) -> tuple[Phase, ...]:
    """Return the phases, naming the dot unit of a CPU that makes their products under a plan."""
    kernel = split(kernel)
    dots = find_word_dots(plan_kernel(kernel, plan, facts, for_units=bool(units)), units)
    ops = phase_ops(kernel)
    texts = {
        phase.name: {_action(kernel, op): f"{_action(kernel, op)} on {dots[op].on.unit.name}"
                     for op in ops[phase.name].walk() if op in dots}
        for phase in phases
    }  # fmt: skip
    return tuple(
        replace(phase, does=tuple(texts[phase.name].get(text, text) for text in phase.does)) for phase in phases
    )


def _action(kernel: KernelOp, op: Operation) -> str:
    if isinstance(op, AccessOp):
        name = _name(kernel, op.base)
        if isinstance(op, GatherOp):
            return f"gathers from {name}"
        if isinstance(op, ScatterOp):
            return f"scatters into {name}"
        return f"reads {name}" if isinstance(op, LoadOp) else f"writes {name}"
    if isinstance(op, ReductionOp):
        return f"reduces along {op.axis.data} ({op.name.removeprefix('vk.')})"
    if isinstance(op, ScanOp | ScanByOp):
        return f"scans along {op.axis.data}"
    if isinstance(op, DotOp):
        return f"multiplies matrices along {op.axis.data}"
    return ""


def _name(kernel: KernelOp, base: SSAValue) -> str:
    if isinstance(base, BlockArgument) and base.block is kernel.body.block:
        return kernel.parameters.data[base.index].data
    if isinstance(base.owner, ScratchOp):
        return base.owner.label.data
    return base.name_hint or "memory"


def source_of(kernel: KernelOp) -> tuple[SourceLine, ...]:
    """Return the kernel's source lines with their phases; none if the source is unavailable."""
    if not isinstance(kernel.location, FileLineColLoc):
        return ()
    file, first = kernel.location.filename.data, kernel.location.line.data
    phases: dict[int, dict[str, None]] = {}
    for name, phase in phase_ops(kernel).items():
        for line in _lines(phase.walk(), file):
            phases.setdefault(line, {})[name] = None
    last = max([first, *phases, *_lines(kernel.walk(), file)])
    numbers = range(first, min(last, first + MAX_SOURCE_LINES - 1) + 1)
    texts = [linecache.getline(file, number).rstrip() for number in numbers]
    if not any(texts):
        return ()
    return tuple(SourceLine(n, text, tuple(phases.get(n, ()))) for n, text in zip(numbers, texts, strict=True))


def _lines(ops: Iterable[Operation], file: str) -> Iterator[int]:
    for op in ops:
        if isinstance(op.location, FileLineColLoc) and op.location.filename.data == file:
            yield op.location.line.data
