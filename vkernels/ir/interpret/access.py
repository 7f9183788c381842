"""Loads, stores, gathers and scatters: every index checked, every element known to have been written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Operation

from ..dialect import AccessOp, GatherOp, LoadOp, ScatterOp, StoreOp, axes_of, element_of
from .memory import ElementMemory
from .numbers import Array, dtype_of
from .state import InterpreterState, align


@dataclass(frozen=True)
class _Places:
    """Where a tile's elements lie. `indices`: one array a dimension; `active`: None for all. `shape` is the tile's."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    indices: list[Array]
    active: Array | None

    def mask(self) -> Array:
        """Which elements are active, in full."""
        return np.broadcast_to(np.asarray(True if self.active is None else self.active), self.shape)

    def chosen(self, mask: Array) -> tuple[Array, ...]:
        """The indices of the elements that a mask of the full shape chooses: one-dimensional, one array a dimension."""
        return tuple(np.broadcast_to(index, self.shape)[mask] for index in self.indices)

    def position(self, wrong: Array) -> str:
        """`i = 3, j = 0`: the first of the elements that a mask chooses; empty for a scalar."""
        first = np.unravel_index(int(np.argmax(wrong)), self.shape) if self.axes else ()
        return ", ".join(f"{axis} = {int(p)}" for axis, p in zip(self.axes, first, strict=True))


@register_impls
class AccessFunctions(InterpreterFunctions):
    """The vk dialect's accesses."""

    def __init__(self, state: InterpreterState):
        self.state = state

    @impl(LoadOp)
    def load(self, interpreter: Interpreter, op: LoadOp, args: PythonValues) -> PythonValues:
        return (self._read(interpreter, op),)

    @impl(GatherOp)
    def gather(self, interpreter: Interpreter, op: GatherOp, args: PythonValues) -> PythonValues:
        return (self._read(interpreter, op),)

    @impl(StoreOp)
    def store(self, interpreter: Interpreter, op: StoreOp, args: PythonValues) -> PythonValues:
        return self._write(interpreter, op)

    @impl(ScatterOp)
    def scatter(self, interpreter: Interpreter, op: ScatterOp, args: PythonValues) -> PythonValues:
        return self._write(interpreter, op)

    def _read(self, interpreter: Interpreter, op: LoadOp | GatherOp) -> Array:
        memory, places = self._places(interpreter, op)
        mask = places.mask()
        chosen = places.chosen(mask)
        self._check_written(op, memory, places, mask, chosen)
        if memory.trace is not None and self.state.program is not None:
            conflict = memory.trace.read(chosen, self.state.program.number)
            self._check_race(op, memory, conflict, chosen, "reads", "written")
        result = np.zeros(places.shape, dtype_of(element_of(op.result)))
        result[mask] = memory.load(chosen)
        return result

    def _write(self, interpreter: Interpreter, op: StoreOp | ScatterOp) -> PythonValues:
        memory, places = self._places(interpreter, op)
        mask = places.mask()
        chosen = places.chosen(mask)
        values = np.broadcast_to(interpreter.get_values((op.value,))[0], places.shape)[mask]
        traced = memory.trace is not None and self.state.program is not None
        if op.atomic is not None:
            self._check_written(op, memory, places, mask, chosen)
            if traced:
                self._note_write(op, memory, chosen, None)
            memory.update(chosen, values, op.atomic.data)
        else:
            if traced:
                self._note_write(op, memory, chosen, values)
            memory.store(chosen, values)
        return ()

    def _places(self, interpreter: Interpreter, op: AccessOp) -> tuple[ElementMemory, _Places]:
        """The memory that an access names, and where; raises `CheckError` for an index out of range."""
        memory: ElementMemory = interpreter.get_values((op.base,))[0]
        axes = axes_of(op.tile)
        shape = self.state.shape_of(op.tile.type)
        indices = [self._index(interpreter, op, d, axes, shape) for d in range(len(op.index))]
        indices = indices or [np.zeros((), np.int64)]
        conditions = [] if (active := self.state.active(axes)) is None else [active]
        for axis, count in op.bounds.items():
            below = np.arange(shape[axes.index(axis)]) < interpreter.get_values((count,))[0]
            conditions.append(align(below, (axis,), axes))
        if op.mask is not None:
            conditions.append(align(interpreter.get_values((op.mask,))[0], axes_of(op.mask), axes))
        for d in op.guarded_dimensions:
            conditions.append((indices[d] >= 0) & (indices[d] < memory.array.shape[d]))
        places = _Places(axes, shape, indices, reduce(np.logical_and, conditions) if conditions else None)
        self._check_range(op, memory, places)
        return memory, places

    def _index(
        self, interpreter: Interpreter, op: AccessOp, dimension: int, axes: Sequence[str], shape: Sequence[int]
    ) -> Array:
        """The index of one dimension, broadcastable to the tile."""
        total = np.zeros((1,) * len(axes), np.int64)
        if (offset := op.offset_of(dimension)) is not None:
            total = total + align(interpreter.get_values((offset,))[0], axes_of(offset), axes).astype(np.int64)
        for axis, coefficient in op.index.data[dimension].terms:
            positions = np.arange(shape[axes.index(axis)], dtype=np.int64) * np.int64(coefficient)
            total = total + align(positions, (axis,), axes)
        return total

    def _check_range(self, op: AccessOp, memory: ElementMemory, places: _Places) -> None:
        for dimension, (index, size) in enumerate(zip(places.indices, memory.array.shape, strict=True)):
            outside = (index < 0) | (index >= size)
            if not outside.any():
                continue
            wrong = np.broadcast_to(outside, places.shape) & places.mask()
            if wrong.any():
                value = int(np.broadcast_to(index, places.shape)[wrong][0])
                elements = "1 element" if size == 1 else f"{size} elements"
                raise self.state.fault(
                    op,
                    f"index {value} is outside dimension {dimension} of `{memory.label}`, which has {elements}",
                    _at(places.position(wrong)),
                )

    def _check_written(
        self, op: AccessOp, memory: ElementMemory, places: _Places, mask: Array, chosen: tuple[Array, ...]
    ) -> None:
        unwritten = memory.unwritten(chosen)
        if unwritten is not None and unwritten.any():
            wrong = np.zeros(places.shape, np.bool_)
            wrong[mask] = unwritten
            raise self.state.fault(
                op,
                f"{_element(memory, chosen, unwritten)} is read before anything has been written to it",
                _at(places.position(wrong)),
            )

    def _note_write(
        self, op: StoreOp | ScatterOp, memory: ElementMemory, chosen: tuple[Array, ...], values: Array | None
    ) -> None:
        """Note a write, or an atomic update if there are no values; raises `CheckError` if another program uses it."""
        if memory.trace is None or self.state.program is None:
            return
        number = self.state.program.number
        if values is None:
            self._check_race(op, memory, memory.trace.update(chosen, number), chosen, "updates", "read or written")
        else:
            conflict = memory.trace.write(chosen, number, memory.changes(chosen, values))
            self._check_race(op, memory, conflict, chosen, "writes", "read or written differently")

    def _check_race(
        self, op: Operation, memory: ElementMemory, conflict: Array, chosen: tuple[Array, ...], does: str, done: str
    ) -> None:
        if conflict.any():
            what = f"a program {does} {_element(memory, chosen, conflict)}, which another of its launch has {done}"
            raise self.state.fault(op, what, "Programs of a launch run in any order and at once.")


def _element(memory: ElementMemory, chosen: tuple[Array, ...], wrong: Array) -> str:
    """`features[3, 0]`: the first of the chosen elements that are wrong."""
    first = int(np.argmax(wrong))
    indices = ", ".join(str(int(index[first])) for index in chosen)
    return f"`{memory.label}[{indices}]`" if indices else f"`{memory.label}`"


def _at(position: str) -> str:
    return f"at {position}" if position else ""
