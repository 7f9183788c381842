"""Loads, stores, gathers and scatters: every index is checked, and that every element read has been written."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from xdsl.ir import Operation

from ..dialect import (
    AccessOp,
    FetchOp,
    GatherOp,
    LoadOp,
    PrefetchOp,
    ScatterOp,
    StoreOp,
    WriteOp,
    axes_of,
    element_of,
    sizes_of,
)
from ..errors import CheckError
from .memory import AccessTrace, ElementMemory
from .numbers import Array, dtype_of
from .state import Handler, TileInterpreter, align


class _Access:
    """The elements that an access touches. Raises `CheckError` where an active element's index is out of range.

    `active`: one truth value an element of the tile. `chosen`: the indices of the active elements, one-dimensional,
    one array a dimension of the memory.
    """

    def __init__(self, run: TileInterpreter, op: AccessOp):
        self.state, self.op = run.state, op
        self.memory: ElementMemory = run.get_values((op.base,))[0]
        self.axes, self.shape = axes_of(op.tile), run.state.shape_of(op.tile.type)
        indices = [self._index(run, d) for d in range(len(op.index))] or [np.zeros((), np.int64)]
        conditions = [] if (active := run.state.active(self.axes)) is None else [active]
        for axis, count in op.bounds.items():
            below = np.arange(self.shape[self.axes.index(axis)]) < run.get_values((count,))[0]
            conditions.append(align(below, (axis,), self.axes))
        if op.mask is not None:
            conditions.append(align(run.get_values((op.mask,))[0], axes_of(op.mask), self.axes))
        for d in op.guarded_dimensions:
            conditions.append((indices[d] >= 0) & (indices[d] < self.memory.array.shape[d]))
        every = np.asarray(reduce(np.logical_and, conditions)) if conditions else np.asarray(True)
        self.active = np.broadcast_to(every, self.shape)
        for dimension, index in enumerate(indices):
            self._check_range(dimension, index)
        self.chosen = tuple(np.broadcast_to(index, self.shape)[self.active] for index in indices)

    def _index(self, run: TileInterpreter, dimension: int) -> Array:
        """The index of one dimension, broadcastable to the tile."""
        total = np.zeros((1,) * len(self.axes), np.int64)
        if (offset := self.op.offset_of(dimension)) is not None:
            total = total + align(run.get_values((offset,))[0], axes_of(offset), self.axes).astype(np.int64)
        for axis, coefficient in self.op.index.data[dimension].terms:
            positions = np.arange(self.shape[self.axes.index(axis)], dtype=np.int64) * np.int64(coefficient)
            total = total + align(positions, (axis,), self.axes)
        return total

    def _check_range(self, dimension: int, index: Array) -> None:
        size = self.memory.array.shape[dimension]
        outside = (index < 0) | (index >= size)
        if not outside.any():
            return
        wrong = np.broadcast_to(outside, self.shape) & self.active
        if wrong.any():
            value = int(np.broadcast_to(index, self.shape)[wrong][0])
            elements = "1 element" if size == 1 else f"{size} elements"
            label = self.memory.label
            what = f"index {value} is outside dimension {dimension} of `{label}`, which has {elements}"
            raise self._fault_at(wrong, what)

    def check_written(self) -> None:
        """Raise `CheckError` for an element that nothing has been written to."""
        unwritten = self.memory.unwritten(self.chosen)
        if unwritten is not None and unwritten.any():
            wrong = np.zeros(self.shape, np.bool_)
            wrong[self.active] = unwritten
            raise self._fault_at(wrong, f"{self._element(unwritten)} is read before anything has been written to it")

    def check_race(self, note: Callable[..., Array], does: str, done: str, *written: Array) -> None:
        """Note a read, update or write (of the values `written`) by this program, where races are looked for.

        Raises `CheckError` where another program of the launch does what may not happen at the same time.
        """
        trace, program = self.memory.trace, self.state.program
        if trace is None or program is None:
            return
        changes = [self.memory.changes(self.chosen, values) for values in written]
        conflict = note(trace, self.chosen, program.number, *changes)
        if conflict.any():
            what = f"a program {does} {self._element(conflict)}, which another of its launch has {done}"
            raise self.state.fault(self.op, what, "Programs of a launch run in any order and at once.")

    def _fault_at(self, wrong: Array, message: str) -> CheckError:
        """An error at the first element that a mask of the tile chooses: `at i = 3, j = 0`."""
        first = np.unravel_index(int(np.argmax(wrong)), self.shape) if self.axes else ()
        position = ", ".join(f"{axis} = {int(p)}" for axis, p in zip(self.axes, first, strict=True))
        return self.state.fault(self.op, message, f"at {position}" if position else "")

    def _element(self, wrong: Array) -> str:
        """`features[3, 0]`: the first of the active elements that are wrong."""
        first = int(np.argmax(wrong))
        indices = ", ".join(str(int(index[first])) for index in self.chosen)
        return f"`{self.memory.label}[{indices}]`" if indices else f"`{self.memory.label}`"


def _read(run: TileInterpreter, op: LoadOp | GatherOp, *_: object) -> Array:
    access = _Access(run, op)
    access.check_written()
    access.check_race(AccessTrace.read, "reads", "written")
    result = np.zeros(access.shape, dtype_of(element_of(op.result)))
    result[access.active] = access.memory.load(access.chosen)
    return result


def _prefetch(_: TileInterpreter, op: PrefetchOp, *__: object) -> Array:
    """Nothing is read: a hint may go anywhere."""
    return np.zeros(tuple(sizes_of(op.result).values()), dtype_of(element_of(op.result)))


def _write(run: TileInterpreter, op: WriteOp, value: Array, *_: object) -> None:
    access = _Access(run, op)
    values = np.broadcast_to(value, access.shape)[access.active]
    if op.atomic is not None:
        access.check_written()
        if op.exclusive is None:
            access.check_race(AccessTrace.update, "updates", "read or written")
        else:
            access.check_race(AccessTrace.update_alone, "updates alone", "read, written or updated")
        access.memory.update(access.chosen, values, op.atomic.data)
    else:
        access.check_race(AccessTrace.write, "writes", "read or written differently", values)
        access.memory.store(access.chosen, values)


def _fetch(run: TileInterpreter, op: FetchOp, *given: Array) -> Array:
    """Elements are updated one after another, and each finds what those before it left."""
    access = _Access(run, op)
    expected, value = (None, given[0]) if op.expected is None else (given[0], given[1])
    access.check_written()
    access.check_race(AccessTrace.update, "updates", "read or written")
    values = np.broadcast_to(value, access.shape)[access.active]
    wanted = None if expected is None else np.broadcast_to(expected, access.shape)[access.active]
    assert op.atomic is not None, "verified"
    result = np.zeros(access.shape, dtype_of(element_of(op.result)))
    result[access.active] = access.memory.fetch(access.chosen, values, op.atomic.data, wanted)
    return result


ACCESS_HANDLERS: dict[type[Operation], Handler] = {
    LoadOp: _read,
    GatherOp: _read,
    PrefetchOp: _prefetch,
    StoreOp: _write,
    FetchOp: _fetch,
    ScatterOp: _write,
}
