"""The frame of kernels: axes, loops, branches, phases, launches, scratchpad and swap space.

Every operation with a body is a sequence of *turns*: how often the body runs, with which arguments, and what becomes of
what it yields. `run` takes the turns at once; `debug` has Python code take them, so that a debugger can stop between.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Operation, Region

from ..dialect import (
    BarrierOp,
    BoundaryOp,
    BufferOp,
    LaunchOp,
    PhaseOp,
    RangeOp,
    ScratchOp,
    SizeOp,
    TileOp,
    WholeOp,
    YieldOp,
    axes_of,
)
from ..errors import IRError
from .memory import AccessTrace, ElementMemory
from .numbers import dtype_of
from .state import InterpretedProgram, InterpreterState, Predicate, align


@dataclass(frozen=True)
class BodyRun:
    """One run of a body with these block arguments; its yielded values are sent back."""

    region: Region
    arguments: PythonValues


Turns = Generator[BodyRun, PythonValues, PythonValues]
"""The turns of an operation; it returns the operation's results."""


@register_impls
class StructureFunctions(InterpreterFunctions):
    """Structure of the vk dialect, and scf."""

    def __init__(self, state: InterpreterState):
        self.state = state

    @impl(SizeOp)
    def size(self, interpreter: Interpreter, op: SizeOp, args: PythonValues) -> PythonValues:
        if op.size.data not in self.state.sizes:
            raise IRError(f"no tensor parameter has a size {op.size.data}")
        return (np.int64(self.state.sizes[op.size.data]),)

    @impl(TileOp)
    def tile(self, interpreter: Interpreter, op: TileOp, args: PythonValues) -> PythonValues:
        self.state.extents[op.axis.data] = max(0, int(args[0]))
        return ()

    @impl(WholeOp)
    def whole(self, interpreter: Interpreter, op: WholeOp, args: PythonValues) -> PythonValues:
        self.state.extents[op.axis.data] = max(0, int(args[0]))
        return ()

    @impl(ScratchOp)
    def scratch(self, interpreter: Interpreter, op: ScratchOp, args: PythonValues) -> PythonValues:
        type_ = op.result.type
        shape = tuple(self.state.extents[d] if isinstance(d, str) else d for d in type_.shape)
        return (ElementMemory.fresh(op.label.data, type_.element, shape),)

    @impl(BufferOp)
    def buffer(self, interpreter: Interpreter, op: BufferOp, args: PythonValues) -> PythonValues:
        type_, sizes = op.result.type, iter(args)
        shape = tuple(max(0, int(next(sizes))) if d == DYNAMIC_INDEX else int(d) for d in type_.shape)
        memory = ElementMemory.fresh(op.label.data, type_.element, shape)
        if self.state.program is None:
            memory.trace = AccessTrace(memory.array.shape) if self.state.check_races else None
            self.state.shared.append(memory)
        return (memory,)

    @impl(BoundaryOp)
    def boundary(self, interpreter: Interpreter, op: BoundaryOp, args: PythonValues) -> PythonValues:
        return ()

    @impl(BarrierOp)
    def barrier(self, interpreter: Interpreter, op: BarrierOp, args: PythonValues) -> PythonValues:
        return ()

    @impl(RangeOp)
    def range(self, interpreter: Interpreter, op: RangeOp, args: PythonValues) -> PythonValues:
        return run(interpreter, self.turns(op, args))

    @impl(PhaseOp)
    def phase(self, interpreter: Interpreter, op: PhaseOp, args: PythonValues) -> PythonValues:
        return run(interpreter, self.turns(op, args))

    @impl(LaunchOp)
    def launch(self, interpreter: Interpreter, op: LaunchOp, args: PythonValues) -> PythonValues:
        return run(interpreter, self.turns(op, args))

    @impl(scf.ForOp)
    def for_(self, interpreter: Interpreter, op: scf.ForOp, args: PythonValues) -> PythonValues:
        return run(interpreter, self.turns(op, args))

    @impl(scf.IfOp)
    def if_(self, interpreter: Interpreter, op: scf.IfOp, args: PythonValues) -> PythonValues:
        return run(interpreter, self.turns(op, args))

    @impl(scf.WhileOp)
    def while_(self, interpreter: Interpreter, op: scf.WhileOp, args: PythonValues) -> PythonValues:
        return run(interpreter, self.turns(op, args))

    @impl_terminator(YieldOp)
    def yield_(self, interpreter: Interpreter, op: YieldOp, args: PythonValues) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    @impl_terminator(scf.YieldOp)
    def scf_yield(
        self, interpreter: Interpreter, op: scf.YieldOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    @impl_terminator(scf.ConditionOp)
    def condition(
        self, interpreter: Interpreter, op: scf.ConditionOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    def turns(self, op: Operation, args: PythonValues) -> Turns:
        """The turns of an operation with a body, given the values of its operands."""
        turns: Callable[[Any, PythonValues], Turns] = self._TURNS[type(op)].__get__(self)
        return turns(op, args)

    def _range(self, op: RangeOp, args: PythonValues) -> Turns:
        if op.is_ragged:
            return (yield from self._ragged(op, args))
        start, stop, *carried = args
        for position in range(int(start), int(stop)):
            carried = list((yield BodyRun(op.body, (np.int64(position), *carried))))
        return tuple(carried)

    def _ragged(self, op: RangeOp, args: PythonValues) -> Turns:
        """Steps while any element has one left; what has finished keeps its carried values."""
        position, stop, *carried = args
        axes = axes_of(op.start)
        outer = self.state.active(axes)
        while True:
            active = np.asarray(position < stop) if outer is None else np.asarray((position < stop) & outer)
            if not active.any():
                return tuple(carried)
            with self.state.only(Predicate(axes, active)):
                after = yield BodyRun(op.body, (position, *carried))
            carried = [
                np.where(align(active, axes, axes_of(value)), new, old)
                for value, new, old in zip(op.initial, after, carried, strict=True)
            ]
            position = position + active.astype(np.int64)

    def _phase(self, op: PhaseOp, args: PythonValues) -> Turns:
        return (yield BodyRun(op.body, ()))

    def _launch(self, op: LaunchOp, args: PythonValues) -> Turns:
        for memory in self.state.shared:
            if memory.trace is not None:
                memory.trace.reset()
        grid = [max(0, int(size)) for size in args]
        for number, coordinates in _programs(grid, self.state.order):
            self.state.program = InterpretedProgram(op.label.data, number, coordinates)
            yield BodyRun(op.body, tuple(map(np.int64, coordinates)))
        self.state.program = None
        return ()

    def _for(self, op: scf.ForOp, args: PythonValues) -> Turns:
        start, stop, step, *carried = args
        if step <= 0:
            raise self.state.fault(op, f"a loop has step {int(step)}, expected 1 or more")
        integer = dtype_of(op.body.block.args[0].type).type
        for position in range(int(start), int(stop), int(step)):
            carried = list((yield BodyRun(op.body, (integer(position), *carried))))
        return tuple(carried)

    def _if(self, op: scf.IfOp, args: PythonValues) -> Turns:
        region = op.true_region if args[0] else op.false_region
        return (yield BodyRun(region, ())) if region.blocks else ()

    def _while(self, op: scf.WhileOp, args: PythonValues) -> Turns:
        carried = args
        while True:
            condition, *values = yield BodyRun(op.before_region, carried)
            if not condition:
                return tuple(values)
            carried = yield BodyRun(op.after_region, tuple(values))

    _TURNS: ClassVar = {
        RangeOp: _range,
        PhaseOp: _phase,
        LaunchOp: _launch,
        scf.ForOp: _for,
        scf.IfOp: _if,
        scf.WhileOp: _while,
    }


def run(interpreter: Interpreter, turns: Turns) -> PythonValues:
    """Take all turns; returns the operation's results."""
    try:
        turn = next(turns)
        while True:
            turn = turns.send(interpreter.run_ssacfg_region(turn.region, turn.arguments))
    except StopIteration as stop:
        results: PythonValues = stop.value
        return results


def _programs(grid: Sequence[int], order: int | None) -> Generator[tuple[int, tuple[int, ...]]]:
    """A grid's programs with their numbers: one after another, or shuffled by a seed."""
    programs = list(enumerate(itertools.product(*map(range, grid))))
    if order is not None:
        np.random.default_rng(order).shuffle(programs)
    yield from programs
