"""Loads, stores and atomic updates of global memory and of the scratchpad, every one of them checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Operation

from ...dialect import tt
from ...errors import CheckError
from ..memory import ElementMemory
from ..numbers import Array, dtype_of, from_storage, is_float, storage_of, to_storage, unsigned
from ..state import InterpreterState
from .races import Conflict, InterpreterClock, Stamps
from .regions import AddressSpace, Region

_BITS: dict[int, Attribute] = {8: i8, 16: i16, 32: i32, 64: i64}
_POISON = 0x5AA5A55A5AA5A55A


@dataclass(frozen=True)
class _Access:
    """The elements of one access that lie in one region. `lanes`: their numbers in the flattened tile."""

    op: Operation
    does: str
    region: Region
    lanes: Array
    cells: Array
    width: int
    shape: tuple[int, ...]


@dataclass
class TtirMachine:
    """What programs share: the clock, the address space, and the scratchpad of the one that runs."""

    state: InterpreterState
    space: AddressSpace
    clock: InterpreterClock = field(default_factory=InterpreterClock)
    scratchpad: Region | None = None
    between_programs: bool = True


@register_impls
class AccessFunctions(InterpreterFunctions):
    """The tt dialect's accesses, and barriers."""

    def __init__(self, machine: TtirMachine):
        self.machine = machine

    @impl(tt.BarrierOp)
    def barrier(self, interpreter: Interpreter, op: tt.BarrierOp, args: PythonValues) -> PythonValues:
        self.machine.clock.barrier()
        return ()

    @impl(tt.LoadOp)
    def load(self, interpreter: Interpreter, op: tt.LoadOp, args: PythonValues) -> PythonValues:
        """What the mask leaves out is `other`, or poison if there is none."""
        element, shape = tt.element(op.result.type), tt.shape(op.result.type)
        given = iter(args[1:])
        mask = None if op.mask is None else next(given)
        result = poison(element, shape) if op.other is None else np.array(np.broadcast_to(next(given), shape))
        flat = result.reshape(-1)
        for access in self._global(op, "reads", args[0], mask, element, shape):
            flat[access.lanes] = self._read(access, element)
        return (result,)

    @impl(tt.StoreOp)
    def store(self, interpreter: Interpreter, op: tt.StoreOp, args: PythonValues) -> PythonValues:
        element, shape = tt.element(op.value.type), tt.shape(op.value.type)
        mask = None if op.mask is None else args[2]
        values = to_storage(np.broadcast_to(args[1], shape), element).reshape(-1)
        for access in self._global(op, "writes", args[0], mask, element, shape):
            self._write(access, values[access.lanes])
        return ()

    @impl(tt.AtomicOp)
    def atomic(self, interpreter: Interpreter, op: tt.AtomicOp, args: PythonValues) -> PythonValues:
        """Elements one after another; of those at one address the results are only right if nobody uses them."""
        element, shape = tt.element(op.result.type), tt.shape(op.result.type)
        mask = None if op.mask is None else args[2]
        values = np.broadcast_to(args[1], shape).reshape(-1)
        result = poison(element, shape)
        flat = result.reshape(-1)
        for access in self._global(op, "updates", args[0], mask, element, shape):
            flat[access.lanes] = self._update(access, element, op, values[access.lanes])
        return (result,)

    @impl(tt.ScratchpadOp)
    def scratch(self, interpreter: Interpreter, op: tt.ScratchpadOp, args: PythonValues) -> PythonValues:
        """Elements travel as i32 or i64, narrower ones extended with zeros."""
        self.machine.clock.tick()
        type_ = op.results_[0].type
        shape = tt.shape(type_)
        offsets = np.broadcast_to(args[0], shape).reshape(-1).astype(np.int64)
        does = "writes" if op.is_store else "reads"
        region = self.machine.scratchpad
        if region is None:
            raise self.machine.state.fault(op, f"{op.name} {does} the scratchpad, but the program has none")
        element = _BITS[op.bits]
        result = poison(tt.element(type_), shape)
        access = self._checked(op, does, region, np.arange(offsets.size), offsets, op.bits // 8, shape)
        if op.is_store:
            values = np.broadcast_to(args[1], shape).reshape(-1)[access.lanes]
            self._write(access, values.astype(dtype_of(element)))
        else:
            read = unsigned(self._read(access, element)).astype(dtype_of(tt.element(type_)))
            result.reshape(-1)[access.lanes] = read
        return (result,)

    def _global(
        self, op: Operation, does: str, pointers: Array, mask: Array | None, element: Attribute, shape: tuple[int, ...]
    ) -> Iterator[_Access]:
        """The active elements of an access to global memory, region by region."""
        self.machine.clock.tick()
        flat = np.broadcast_to(pointers, shape).reshape(-1)
        active = None if mask is None else np.flatnonzero(np.broadcast_to(mask, shape))
        width = storage_of(element).itemsize
        for region, chosen, offsets in self.machine.space.find(flat if active is None else flat[active]):
            lanes = chosen if active is None else active[chosen]
            if region is None:
                pointer = f"{int(flat[lanes[0]]):#x}"
                raise self._fault(op, lanes[:1], shape, f"{op.name} {does} at {pointer}, where no argument lies")
            yield self._checked(op, does, region, lanes, offsets, width, shape)

    def _checked(
        self,
        op: Operation,
        does: str,
        region: Region,
        lanes: Array,
        offsets: Array,
        width: int,
        shape: tuple[int, ...],
    ) -> _Access:
        """An access that lies in its region, aligned; elements in the region's slot are left out."""
        if region.slot is not None:
            kept = np.flatnonzero((offsets < region.slot) | (offsets > region.high - width))
            lanes, offsets = lanes[kept], offsets[kept]
        for wrong, why in (
            (region.outside(offsets, width), f"outside its {region.size} bytes"),
            (offsets % width != 0, f"not aligned to {width} bytes"),
        ):
            if wrong.any():
                first = np.flatnonzero(wrong)[:1]
                byte = int(offsets[first[0]]) - region.first
                what = f"{op.name} {does} {width} bytes at byte {byte} of `{region.label}`, {why}"
                raise self._fault(op, lanes[first], shape, what)
        return _Access(op, does, region, lanes, offsets // width, width, shape)

    def _read(self, access: _Access, element: Attribute) -> Array:
        self._race(access, Stamps.read)
        self._known(access)
        return from_storage(access.region.elements(storage_of(element))[access.cells], element)

    def _write(self, access: _Access, values: Array) -> None:
        """Write values as memory holds them; equal ones may go to one address."""
        self._race(access, Stamps.write)
        region = access.region
        self._check_writeable(access)
        bits = np.ascontiguousarray(values).view(f"u{access.width}")
        memory = region.elements(bits.dtype)
        memory[access.cells] = bits
        differ = memory[access.cells] != bits
        if differ.any():
            raise self._at(access, differ, "writes different values to", "", "Which of them stays is not defined.")
        region.note_written(access.cells, access.width)

    def _update(self, access: _Access, element: Attribute, op: tt.AtomicOp, values: Array) -> Array:
        self._race(access, Stamps.update)
        self._check_writeable(access)
        self._known(access)
        memory = access.region.elements(storage_of(element))
        before = from_storage(memory[access.cells], element)
        combine(op.kind, element, memory, access.cells, values)
        access.region.note_written(access.cells, access.width)
        return before

    def _check_writeable(self, access: _Access) -> None:
        if not access.region.writeable and access.cells.size:
            everything = np.ones(access.cells.shape, np.bool_)
            raise self._at(access, everything, access.does, ", which is read-only")

    def _known(self, access: _Access) -> None:
        unwritten = access.region.unwritten(access.cells, access.width)
        if unwritten is not None and unwritten.any():
            raise self._at(access, unwritten, access.does, " before anything has been written there")

    def _race(self, access: _Access, note: Callable[..., Conflict | None]) -> None:
        machine = self.machine
        stamps, between = access.region.allocation.stamps, machine.between_programs and not access.region.private
        conflict = note(stamps, access.cells, access.width, machine.clock, between)
        if conflict is None:
            return
        if conflict.other_program:
            why = f", which another program of the launch has {conflict.earlier}"
            help = "Programs of a launch run in any order and at once."
        else:
            why = f", which has been {conflict.earlier} with no barrier since"
            help = "Threads of a program run at their own pace between barriers."
        raise self._at(access, conflict.elements, access.does, why, help)

    def _at(self, access: _Access, wrong: Array, does: str, why: str, help: str = "") -> CheckError:
        """The error at the first of an access's elements that are wrong."""
        first = np.flatnonzero(wrong)[:1]
        byte = int(access.cells[first[0]]) * access.width - access.region.first
        where = f"{access.width} bytes at byte {byte} of `{access.region.label}`"
        return self._fault(access.op, access.lanes[first], access.shape, f"{access.op.name} {does} {where}{why}", help)

    def _fault(self, op: Operation, lane: Array, shape: tuple[int, ...], message: str, help: str = "") -> CheckError:
        position = ", ".join(str(int(p)) for p in np.unravel_index(int(lane[0]), shape)) if shape else ""
        at = f"at element ({position}) of the tensor" if position else ""
        return self.machine.state.fault(op, message, "\n".join(filter(None, (help, at))))


def poison(element: Attribute, shape: tuple[int, ...]) -> Array:
    """Values that nothing may depend on: NaN, or an integer that is nobody's."""
    dtype = dtype_of(element)
    if is_float(element):
        return np.full(shape, np.nan, dtype)
    return np.full(shape, np.array(_POISON, np.int64).astype(dtype), dtype)


_Combine = Callable[[Any, Any], Any]

_NAMED: dict[tt.Atomic, str] = {
    tt.Atomic.ADD: "add",
    tt.Atomic.FADD: "add",
    tt.Atomic.MAX: "max",
    tt.Atomic.MIN: "min",
}
_BITWISE: dict[tt.Atomic, np.ufunc] = {
    tt.Atomic.AND: np.bitwise_and,
    tt.Atomic.OR: np.bitwise_or,
    tt.Atomic.XOR: np.bitwise_xor,
}
_UNSIGNED: dict[tt.Atomic, np.ufunc] = {tt.Atomic.UMAX: np.maximum, tt.Atomic.UMIN: np.minimum}


def combine(kind: tt.Atomic, element: Attribute, memory: Array, cells: Array, values: Array) -> None:
    """Combine values into memory, as memory holds its elements, one after another."""
    if kind in _NAMED:
        ElementMemory("", element, memory).update((cells,), values, _NAMED[kind])
    elif kind in _BITWISE:
        _BITWISE[kind].at(memory, cells, values)
    elif kind in _UNSIGNED:
        _UNSIGNED[kind].at(unsigned(memory), cells, unsigned(values))
    else:
        memory[cells] = to_storage(values, element)
