"""Loads, stores and atomic updates of global memory and of the scratchpad, every one of them checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation

from ...dialect import tt
from ...errors import CheckError
from ..memory import ElementMemory
from ..numbers import Array, dtype_of, from_storage, is_float, storage_of, to_storage, unsigned
from ..state import Handler, Handlers, InterpreterState, TileInterpreter
from .races import InterpreterClock
from .regions import AddressSpace, Region


class TtirInterpreter(TileInterpreter):
    """The interpreter with the clock, the address space and the running program's scratchpad.

    `grid`: programs of the launch along each dimension. `between_programs`: whether to look for races between programs.
    `same_lane_is_ordered`: whether accesses by one position of tensors of one shape are those of one thread.
    """

    scratchpad: Region | None = None

    def __init__(
        self,
        module: ModuleOp,
        state: InterpreterState,
        handlers: Handlers,
        space: AddressSpace,
        grid: tuple[int, ...],
        between_programs: bool,
        same_lane_is_ordered: bool = False,
    ):
        super().__init__(module, state, handlers)
        self.space, self.grid, self.between_programs = space, grid, between_programs
        self.same_lane_is_ordered = same_lane_is_ordered
        by_descriptor = tt.DescriptorLoadOp | tt.DescriptorStoreOp
        self.has_descriptors = any(isinstance(op, by_descriptor) for op in module.walk())
        self.clock = InterpreterClock()


POINTED, DESCRIBED = "pointed", "described"
"""The ways of an access: by the program's threads, or by a descriptor, beside them."""
_INTEGERS: dict[int, Attribute] = {8: i8, 16: i16, 32: i32, 64: i64}
_POISON = 0x5AA5A55A5AA5A55A
_SHAPES = (1 << 31) - 1
"""How many shapes of tensors are told apart, with 32 bits of positions each."""
_COMBINATIONS = {
    tt.Atomic.AND: "and",
    tt.Atomic.OR: "or",
    tt.Atomic.XOR: "xor",
    tt.Atomic.ADD: "add",
    tt.Atomic.FADD: "add",
    tt.Atomic.MAX: "max",
    tt.Atomic.MIN: "min",
    tt.Atomic.UMAX: "maxui",
    tt.Atomic.UMIN: "minui",
    tt.Atomic.XCHG: "exchange",
}


class _Access:
    """The elements of one access that are in one region; those in the region's slot are left out.

    `does`: reads, writes or updates. `lanes`: the elements' numbers in the flattened tile, of this `shape`. `cells`:
    their numbers in the allocation. `way`: by pointers or by a descriptor. Raises
    `CheckError` for an element out of bounds or misaligned.
    """

    def __init__(
        self,
        run: TtirInterpreter,
        op: Operation,
        does: str,
        element: Attribute,
        shape: tuple[int, ...],
        region: Region,
        lanes: Array,
        offsets: Array,
        way: str = POINTED,
    ):
        self.run, self.op, self.does, self.element, self.shape, self.region = run, op, does, element, shape, region
        self.way = way
        self.width = storage_of(element).itemsize
        if region.slot is not None:
            kept = np.flatnonzero((offsets < region.slot) | (offsets > region.high - self.width))
            lanes, offsets = lanes[kept], offsets[kept]
        self.lanes, self.cells = lanes, offsets // self.width
        for wrong, why in (
            (region.outside(offsets, self.width), f"outside its {region.size} bytes"),
            (offsets % self.width != 0, f"not aligned to {self.width} bytes"),
        ):
            if wrong.any():
                first = np.flatnonzero(wrong)[0]
                raise self._fault(first, int(offsets[first]), does, f", {why}")

    def read(self) -> Array:
        """The elements; raises `CheckError` for a race, or where nothing has been written."""
        self._check_race()
        self._check_written()
        return from_storage(self.region.elements(storage_of(self.element))[self.cells], self.element)

    def write(self, values: Array) -> None:
        """Write values as memory holds them; equal ones may go to one address."""
        self._check_race()
        self._check_writeable()
        bits = np.ascontiguousarray(values).view(f"u{self.width}")
        memory = self.region.elements(bits.dtype)
        memory[self.cells] = bits
        differ = memory[self.cells] != bits
        self._check(differ, "", "Which of them stays is not defined.", "writes different values to")
        self.region.note_written(self.cells, self.width)

    def fetch(self, kind: str, values: Array, expected: Array | None = None) -> Array:
        """Update elements one after another; what each update found."""
        self._check_race()
        self._check_writeable()
        self._check_written()
        memory = self.region.elements(storage_of(self.element))
        elements = ElementMemory("", self.element, memory)
        if kind in ("exchange", "compare") or len(np.unique(self.cells)) < len(self.cells):
            before = elements.fetch((self.cells,), values, kind, expected)
        else:
            before = from_storage(memory[self.cells], self.element)
            elements.update((self.cells,), values, kind)
        self.region.note_written(self.cells, self.width)
        return before

    def order(self, op: tt.AtomicOp | tt.AtomicCasOp) -> None:
        """Order what programs do around an atomic update of one element, as its semantics say."""
        if self.shape or not op.is_between_programs or not len(self.cells):
            return
        clock, released = self.run.clock, self.region.allocation.released
        byte = int(self.cells[0]) * self.width
        before = released.get(byte, {})
        if op.acquires:
            clock.acquire(before)
        if op.releases:
            released[byte] = clock.release(before)

    def _check_writeable(self) -> None:
        self._check(np.full(self.cells.shape, not self.region.writeable), ", which is read-only")

    def _check_written(self) -> None:
        unwritten = self.region.unwritten(self.cells, self.width)
        if unwritten is not None:
            self._check(unwritten, " before anything has been written there")

    def _check_race(self) -> None:
        between = self.run.between_programs and not self.region.private
        stamps = self.region.allocation.stamps
        threads = None
        if self.run.same_lane_is_ordered:
            threads = self.lanes.astype(np.int64) + (hash(self.shape) % _SHAPES << 32)
        conflict = stamps.note(self.does, self.cells, self.width, self.run.clock, between, threads)
        if conflict is not None and conflict.other_program:
            why = f", which another program of the launch has {conflict.earlier}"
            self._check(conflict.elements, why, "Programs of a launch run in any order and at once.")
        elif conflict is not None:
            why = f", which has been {conflict.earlier} with no barrier since"
            self._check(conflict.elements, why, "Threads of a program run at their own pace between barriers.")
        if not self.run.has_descriptors:
            return
        mixed = self.region.allocation.note_way(self.way, self.does, self.cells, self.width)
        if mixed is not None:
            why = ", which is also accessed the other way, by descriptors or by pointers"
            self._check(mixed, why, "No barrier orders what threads and a descriptor move, if one of them writes.")

    def _check(self, wrong: Array, why: str, help: str = "", does: str = "") -> None:
        """Raise the error at the first of the elements that are wrong, if there is one."""
        if wrong.any():
            first = np.flatnonzero(wrong)[0]
            raise self._fault(first, int(self.cells[first]) * self.width, does or self.does, why, help)

    def _fault(self, number: np.intp, offset: int, does: str, why: str, help: str = "") -> CheckError:
        where = f"{self.width} bytes at byte {offset - self.region.first} of `{self.region.label}`"
        return _fault(self.run, self.op, self.lanes[number], self.shape, f"{does} {where}{why}", help)


def _fault(
    run: TtirInterpreter, op: Operation, lane: Array, shape: tuple[int, ...], message: str, help: str = ""
) -> CheckError:
    position = ", ".join(str(int(p)) for p in np.unravel_index(int(lane), shape)) if shape else ""
    at = f"at element ({position}) of the tensor" if position else ""
    return run.state.fault(op, f"{op.name} {message}", "\n".join(filter(None, (help, at))))


def accesses_at(
    run: TtirInterpreter,
    op: Operation,
    does: str,
    type_: Attribute,
    pointers: Array,
    mask: Array | None,
    way: str = POINTED,
) -> Iterator[_Access]:
    """The active elements of an access to global memory, region by region."""
    run.clock.tick()
    element, shape = tt.element(type_), tt.shape(type_)
    flat = np.broadcast_to(pointers, shape).reshape(-1)
    active = np.arange(flat.size) if mask is None else np.flatnonzero(np.broadcast_to(mask, shape))
    for region, chosen, offsets in run.space.find(flat[active]):
        lanes = active[chosen]
        if region is None:
            pointer = f"{int(flat[lanes[0]]):#x}"
            raise _fault(run, op, lanes[0], shape, f"{does} at {pointer}, where no argument lies")
        yield _Access(run, op, does, element, shape, region, lanes, offsets, way)


def _poison(type_: Attribute) -> Array:
    """Values that no result may depend on: NaN, or an arbitrary integer."""
    element, shape = tt.element(type_), tt.shape(type_)
    dtype = dtype_of(element)
    return np.full(shape, np.nan if is_float(element) else np.array(_POISON, np.int64).astype(dtype), dtype)


def _load(
    run: TtirInterpreter, op: tt.LoadOp, pointers: Array, mask: Array | None = None, other: Array | None = None
) -> Array:
    """Elements that the mask leaves out are `other`, or poison if there is none."""
    type_ = op.result.type
    result = _poison(type_) if other is None else np.array(np.broadcast_to(other, tt.shape(type_)))
    for access in accesses_at(run, op, "reads", type_, pointers, mask):
        result.reshape(-1)[access.lanes] = access.read()
    return result


def _store(run: TtirInterpreter, op: tt.StoreOp, pointers: Array, value: Array, mask: Array | None = None) -> None:
    type_ = op.value.type
    values = to_storage(np.broadcast_to(value, tt.shape(type_)), tt.element(type_)).reshape(-1)
    for access in accesses_at(run, op, "writes", type_, pointers, mask):
        access.write(values[access.lanes])


def _atomic_cas(run: TtirInterpreter, op: tt.AtomicCasOp, pointers: Array, expected: Array, value: Array) -> Array:
    """Compare and store elements one after another."""
    shape, result = tt.shape(op.result.type), _poison(op.result.type)
    wanted, values = (np.broadcast_to(each, shape).reshape(-1) for each in (expected, value))
    for access in accesses_at(run, op, "updates", op.result.type, pointers, None):
        access.order(op)
        result.reshape(-1)[access.lanes] = access.fetch("compare", values[access.lanes], wanted[access.lanes])
    return result


def _atomic(run: TtirInterpreter, op: tt.AtomicOp, pointers: Array, value: Array, mask: Array | None = None) -> Array:
    """Update elements one after another."""
    values = np.broadcast_to(value, tt.shape(op.result.type)).reshape(-1)
    result = _poison(op.result.type)
    for access in accesses_at(run, op, "updates", op.result.type, pointers, mask):
        access.order(op)
        result.reshape(-1)[access.lanes] = access.fetch(_COMBINATIONS[op.kind], values[access.lanes])
    return result


def _scratchpad(run: TtirInterpreter, op: tt.ScratchpadOp, offset: Array, value: Array | None = None) -> Array:
    """Elements travel as i32 or i64, narrower ones extended with zeros."""
    run.clock.tick()
    type_ = op.results_[0].type
    element, shape = _INTEGERS[op.bits], tt.shape(type_)
    does = "reads" if value is None else "writes"
    if run.scratchpad is None:
        raise run.state.fault(op, f"{op.name} {does} the scratchpad, but the program has none")
    offsets = np.broadcast_to(offset, shape).reshape(-1).astype(np.int64)
    access = _Access(run, op, does, element, shape, run.scratchpad, np.arange(offsets.size), offsets)
    result = _poison(type_)
    if value is None:
        result.reshape(-1)[access.lanes] = unsigned(access.read()).astype(dtype_of(tt.element(type_)))
    else:
        access.write(np.broadcast_to(value, shape).reshape(-1)[access.lanes].astype(dtype_of(element)))
    return result


TT_ACCESS_HANDLERS: dict[type[Operation], Handler] = {
    tt.BarrierOp: lambda run, op: run.clock.barrier(),
    tt.LoadOp: _load,
    tt.StoreOp: _store,
    tt.AtomicOp: _atomic,
    tt.AtomicCasOp: _atomic_cas,
    tt.ScratchpadOp: _scratchpad,
}
