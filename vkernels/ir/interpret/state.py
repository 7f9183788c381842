"""One run of a kernel: the interpreter with its table of handlers, and its state beside the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import cf
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.interpreter import Interpreter, OpImplResult, PythonValues, ReturnedValues, Successor
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator

from ..dialect import sizes_of
from ..errors import CheckError, IRError
from ..locations import place_of
from .memory import ElementMemory
from .numbers import Array


@dataclass(frozen=True)
class InterpretedProgram:
    """One program of a launch: its number in the grid's order, and its coordinates."""

    launch: str
    number: int
    coordinates: tuple[int, ...]

    def __str__(self) -> str:
        return f'program ({", ".join(map(str, self.coordinates))}) of launch "{self.launch}"'


@dataclass(frozen=True)
class Predicate:
    """The elements of a ragged range that have steps left: a boolean tile with these axes."""

    axes: tuple[str, ...]
    active: Array


@dataclass
class InterpreterState:
    """The state of one run. `sizes`: the call's, by name. `extents`: positions of each axis of a kernel as written."""

    sizes: Mapping[str, int]
    on_print: Callable[[str], object]
    order: int | None
    check_races: bool
    extents: dict[str, int] = field(default_factory=dict)
    predicates: list[Predicate] = field(default_factory=list)
    """Of the ragged ranges that are running."""
    program: InterpretedProgram | None = None
    shared: list[ElementMemory] = field(default_factory=list)
    """Memory that all programs can reach: the tensors, and buffers at a mapped kernel's top level."""

    def shape_of(self, value: SSAValue | Attribute) -> tuple[int, ...]:
        """Elements along each axis of a tile; none for a scalar."""
        sizes = sizes_of(value)
        return tuple(self.extents[axis] if size == DYNAMIC_INDEX else size for axis, size in sizes.items())

    def active(self, axes: Sequence[str]) -> Array | None:
        """Which elements of a tile with these axes ragged ranges leave active, broadcastable; None for all."""
        result: Array | None = None
        for predicate in self.predicates:
            lacking = tuple(d for d, axis in enumerate(predicate.axes) if axis not in axes)
            left = tuple(axis for axis in predicate.axes if axis in axes)
            aligned = align(np.any(predicate.active, axis=lacking), left, axes)
            result = aligned if result is None else result & aligned
        return result

    def fault(self, op: Operation, message: str, help: str = "") -> CheckError:
        """An error of an operation, at its author's line, that names the program that runs."""
        where = "" if self.program is None else f"in {self.program}"
        return CheckError(message, place_of(op), "\n".join(filter(None, (help, where))))


Handler = Callable[..., Any]
"""Runs an operation, given the interpreter, the operation and its operands' values.

It returns the value of the one result, a tuple of several values, or None where there is no result.
"""

Handlers = Mapping[type[Operation], Handler]


class TileInterpreter(Interpreter):
    """xDSL's interpreter with its own table of handlers: xDSL's wraps each error in a print of the whole module."""

    def __init__(self, module: ModuleOp, state: InterpreterState, handlers: Handlers):
        super().__init__(module)
        self.state = state
        self.constants: dict[Operation, Array] = {}
        self._handlers = handlers

    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        handler = self._handlers.get(type(op))
        if handler is not None:
            values = handler(self, op, *inputs)
            results = values if isinstance(values, tuple) else () if values is None else (values,)
            return OpImplResult(results, None)
        if isinstance(op, cf.BranchOp):
            return OpImplResult((), Successor(op.successor, inputs))
        if isinstance(op, cf.ConditionalBranchOp):
            then, otherwise = op.then_block, op.else_block
            count = len(op.then_arguments)
            chosen = Successor(then, inputs[1 : 1 + count]) if inputs[0] else Successor(otherwise, inputs[1 + count :])
            return OpImplResult((), chosen)
        if not op.has_trait(IsTerminator):
            raise IRError(f"the interpreter does not know {op.name}")
        return OpImplResult((), ReturnedValues(inputs))


def align(array: Array, axes: Sequence[str], target: Sequence[str]) -> Array:
    """A tile with its axes in the target's order, of size 1 where it lacks one."""
    array = np.asarray(array)
    order = [axes.index(axis) for axis in target if axis in axes]
    return array.transpose(order)[tuple(slice(None) if axis in axes else None for axis in target)]
