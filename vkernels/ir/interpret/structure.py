"""The frame of kernels: axes, loops, branches, phases, launches, scratchpad and swap space.

An operation with a body is a sequence of *turns*: how often the body runs, with which arguments, and what becomes of
the values that it yields. The interpreter takes the turns at once. In `debug`, Python code takes them one by one, so
that a debugger can stop between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.interpreter import PythonValues
from xdsl.ir import Operation, Region

from ..dialect import (
    BarrierOp,
    BoundaryOp,
    BufferOp,
    FirstOp,
    LaunchOp,
    PhaseOp,
    RangeOp,
    ScratchOp,
    SizeOp,
    TileOp,
    WholeOp,
    axes_of,
)
from ..errors import IRError
from .memory import AccessTrace, ElementMemory
from .numbers import dtype_of
from .state import Handler, InterpretedProgram, Predicate, TileInterpreter, align


@dataclass(frozen=True)
class BodyRun:
    """One run of a body with these block arguments; its yielded values are sent back."""

    region: Region
    arguments: PythonValues


Turns = Generator[BodyRun, PythonValues, PythonValues]
"""The turns of an operation; it returns the operation's results."""


def _size(run: TileInterpreter, op: SizeOp) -> np.int64:
    if op.size.data not in run.state.sizes:
        raise IRError(f"no tensor parameter has a size {op.size.data}")
    return np.int64(run.state.sizes[op.size.data])


def _axis(run: TileInterpreter, op: TileOp | WholeOp, extent: Any) -> None:
    run.state.extents[op.axis.data] = max(0, int(extent))


def _scratch(run: TileInterpreter, op: ScratchOp) -> ElementMemory:
    type_ = op.result.type
    shape = tuple(run.state.extents[d] if isinstance(d, str) else d for d in type_.shape)
    return ElementMemory.fresh(op.label.data, type_.element, shape)


def _buffer(run: TileInterpreter, op: BufferOp, *sizes: Any) -> ElementMemory:
    type_, given = op.result.type, iter(sizes)
    shape = tuple(max(0, int(next(given))) if d == DYNAMIC_INDEX else int(d) for d in type_.shape)
    memory = ElementMemory.fresh(op.label.data, type_.element, shape)
    if run.state.program is None:
        memory.trace = AccessTrace(memory.array.shape) if run.state.check_races else None
        run.state.shared.append(memory)
    return memory


def _range_turns(run: TileInterpreter, op: RangeOp, args: PythonValues) -> Turns:
    if op.is_ragged:
        return (yield from _ragged_turns(run, op, args))
    start, stop, *carried = args
    for position in range(int(start), int(stop)):
        carried = list((yield BodyRun(op.body, (np.int64(position), *carried))))
    return tuple(carried)


def _ragged_turns(run: TileInterpreter, op: RangeOp, args: PythonValues) -> Turns:
    """Steps while any element has one left; elements that have finished keep their carried values."""
    position, stop, *carried = args
    axes = axes_of(op.start)
    outer = run.state.active(axes)
    while True:
        active = np.asarray(position < stop) if outer is None else np.asarray((position < stop) & outer)
        if not active.any():
            return tuple(carried)
        run.state.predicates.append(Predicate(axes, active))
        after = yield BodyRun(op.body, (position, *carried))
        run.state.predicates.pop()
        carried = [
            np.where(align(active, axes, axes_of(value)), new, old)
            for value, new, old in zip(op.initial, after, carried, strict=True)
        ]
        position = position + active.astype(np.int64)


def _phase_turns(run: TileInterpreter, op: PhaseOp, args: PythonValues) -> Turns:
    return (yield BodyRun(op.body, ()))


def _launch_turns(run: TileInterpreter, op: LaunchOp, args: PythonValues) -> Turns:
    for memory in run.state.shared:
        if memory.trace is not None:
            memory.trace.reset()
    grid = [max(0, int(size)) for size in args]
    programs = list(enumerate(itertools.product(*map(range, grid))))
    if run.state.order is not None:
        np.random.default_rng(run.state.order).shuffle(programs)
    for number, coordinates in programs:
        run.state.program = InterpretedProgram(op.label.data, number, coordinates)
        yield BodyRun(op.body, tuple(map(np.int64, coordinates)))
    run.state.program = None
    return ()


def _for_turns(run: TileInterpreter, op: scf.ForOp, args: PythonValues) -> Turns:
    start, stop, step, *carried = args
    if step <= 0:
        raise run.state.fault(op, f"a loop has step {int(step)}, expected 1 or more")
    integer = dtype_of(op.body.block.args[0].type).type
    for position in range(int(start), int(stop), int(step)):
        carried = list((yield BodyRun(op.body, (integer(position), *carried))))
    return tuple(carried)


def _if_turns(run: TileInterpreter, op: scf.IfOp, args: PythonValues) -> Turns:
    region = op.true_region if args[0] else op.false_region
    return (yield BodyRun(region, ())) if region.blocks else ()


def _while_turns(run: TileInterpreter, op: scf.WhileOp, args: PythonValues) -> Turns:
    carried = args
    while True:
        condition, *values = yield BodyRun(op.before_region, carried)
        if not condition:
            return tuple(values)
        carried = yield BodyRun(op.after_region, tuple(values))


_TURNS: dict[type[Operation], Callable[[TileInterpreter, Any, PythonValues], Turns]] = {
    RangeOp: _range_turns,
    PhaseOp: _phase_turns,
    LaunchOp: _launch_turns,
    scf.ForOp: _for_turns,
    scf.IfOp: _if_turns,
    scf.WhileOp: _while_turns,
}


def has_turns(op: Operation) -> bool:
    """Whether an operation runs a body in turns: that of a scan combines elements, and is no code of its own."""
    return type(op) in _TURNS


def turns_of(run: TileInterpreter, op: Operation, args: PythonValues) -> Turns:
    """The turns of an operation with a body, given the values of its operands."""
    return _TURNS[type(op)](run, op, args)


def _take_turns(run: TileInterpreter, op: Operation, *args: Any) -> PythonValues:
    turns = turns_of(run, op, args)
    try:
        turn = next(turns)
        while True:
            turn = turns.send(run.run_ssacfg_region(turn.region, turn.arguments))
    except StopIteration as stop:
        results: PythonValues = stop.value
        return results


STRUCTURE_HANDLERS: dict[type[Operation], Handler] = {
    SizeOp: _size,
    TileOp: _axis,
    WholeOp: _axis,
    ScratchOp: _scratch,
    BufferOp: _buffer,
    **dict.fromkeys((BoundaryOp, BarrierOp), lambda _, op: None),
    FirstOp: lambda _, op, *coordinates: np.True_,
    **dict.fromkeys(_TURNS, _take_turns),
}
