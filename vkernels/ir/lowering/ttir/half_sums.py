"""Atomic sums of f16 and bf16: GPUs add two that share a word of 4 bytes, not one alone.

Triton adds pairs where it sees that a thread has two neighbours. Elsewhere each element is added together with the
other half of its word, to which -0 is added: that changes no number. (A NaN there may get other bits.) An element whose
other half is not the tensor's is added alone, by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, bf16, i1, i32, i64
from xdsl.ir import SSAValue

from vkernels.ir.analysis.axes import is_multiple
from vkernels.ir.dialect import AccessOp, LaunchOp, TensorArgumentType, WriteOp, arith, sizes_of, tt
from vkernels.ir.facts import Facts

from .addresses import PointerAccess
from .state import TtirState
from .tiles import along

_PAIR = "pair"
"""The axis of both halves of a word, behind the tile's axes."""


def lower_half_sum(
    state: TtirState, operation: WriteOp, access: PointerAccess, value: SSAValue, mask: SSAValue | None
) -> None:
    """Add a tile of f16 or bf16 to elements of a tensor."""
    if mask is None and tt.element(value.type) == bf16:
        mask = state.build.filled(1, tt.tensor(i1, access.sizes))  # Triton fails without one before sm_90
    place = _place_in_row(operation, access)
    if place is None or _has_neighbours(state, operation, access, place) or not _only_sums(state, operation):
        state.build.add(tt.AtomicOp(tt.Atomic.FADD, access.pointers(), value, mask))
        return
    _Words(state, access, place).add(value, mask)


def _place_in_row(operation: WriteOp, access: PointerAccess) -> int | None:
    """The dimension whose positions lie side by side, if its size is known to the function; None if none does."""
    for number in range(len(operation.index)):
        if access.memory.strides[number] == 1 and access.memory.sizes[number] is not None:
            return number
    return None


def _has_neighbours(state: TtirState, operation: WriteOp, access: PointerAccess, place: int) -> bool:
    """Whether the tile has words as wholes: aligned, neither cut by its mask, nor by where it begins."""
    facts, sizes = Facts.from_attribute(state.mapped.facts), sizes_of(operation.tile)
    offset = operation.offset_of(place)
    along_row = [
        axis for axis, coefficient in operation.index.data[place].terms if coefficient == 1 and sizes[axis] > 1
    ]
    if not access.memory.is_aligned or len(operation.index.data[place].terms) != 1 or len(along_row) != 1:
        return False
    is_cut = along_row[0] in operation.bounds or operation.mask is not None or bool(operation.guarded_dimensions)
    elsewhere = [index for number, index in enumerate(access.dimensions) if number != place]
    if is_cut or any(along_row[0] in dimension.varies_along for dimension in elsewhere):
        return False
    return offset is None or (not sizes_of(offset) and is_multiple(offset, 2, facts))


def _only_sums(state: TtirState, operation: WriteOp) -> bool:
    """Whether the launch does nothing with the tensor, or with one that may be the same, but add to it."""
    launch = operation.parent_op()
    while launch is not None and not isinstance(launch, LaunchOp):
        launch = launch.parent_op()
    distinct = Facts.from_attribute(state.mapped.facts).distinct

    def is_same(base: SSAValue) -> bool:
        may_be = not distinct and isinstance(base.type, TensorArgumentType) and base.type == operation.base.type
        return base is operation.base or may_be

    accesses = [] if launch is None else [op for op in launch.walk() if isinstance(op, AccessOp) and is_same(op.base)]
    return all(isinstance(op, WriteOp) and op.atomic == operation.atomic for op in accesses)


class _Words:
    """The words of an access's elements, each as two halves along an axis of its own."""

    def __init__(self, state: TtirState, access: PointerAccess, place: int):
        self.build, self.access, self.place = state.build, access, place
        self.facts = Facts.from_attribute(state.mapped.facts)
        self.axes, self.sizes = (*access.axes, _PAIR), (*access.sizes, 2)
        self.type = i64 if access.memory.is_far else i32
        build, memory = self.build, access.memory
        self.base, self.skew = memory.base, build.filled(0, self.type)
        if not memory.is_aligned:  # then the base may be the second half of a word
            half = build.binary(arith.ShRSIOp, build.pure(tt.PtrToIntOp(memory.base)), 1)
            odd = build.binary(arith.AndIOp, half, 1)
            self.base = build.pure(tt.AddPtrOp(memory.base, build.binary(arith.SubiOp, build.filled(0, i64), odd)))
            self.skew = build.number(odd, self.type)
        self.offset = access.elements(self.type)
        skewed = build.binary(arith.AddiOp, self.offset, build.splat(self.skew, access.sizes))
        self.half = build.binary(arith.AndIOp, skewed, 1)
        """0 or 1: which half of its word each element is."""
        self.word = build.binary(arith.MuliOp, build.binary(arith.ShRSIOp, skewed, 1), 2)

    def add(self, value: SSAValue, mask: SSAValue | None) -> None:
        build, access = self.build, self.access
        whole = self._whole()
        halves = along(build, build.range(2), (_PAIR,), self.axes, self.sizes)
        mine = build.compare("eq", self._spread(build.cast(self.half, i32)), halves)
        nothing = build.filled(-0.0, tt.tensor(tt.element(value.type), self.sizes))
        values = build.pure(arith.SelectOp(mine, self._spread(value), nothing))
        active = self._active(mask, whole)
        spread = None if active is None else self._spread(active)
        build.add(tt.AtomicOp(tt.Atomic.FADD, self._pointers(), values, spread))
        if whole is not None:
            alone = self._active(mask, build.binary(arith.XOrIOp, whole, 1))
            build.add(tt.AtomicOp(tt.Atomic.FADD, access.pointers(), value, alone))

    def _active(self, mask: SSAValue | None, some: SSAValue | None) -> SSAValue | None:
        if mask is None or some is None:
            return some if mask is None else mask
        return self.build.binary(arith.AndIOp, mask, some)

    def _spread(self, value: SSAValue) -> SSAValue:
        """An element in both halves."""
        return along(self.build, value, self.access.axes, self.axes, self.sizes)

    def _pointers(self) -> SSAValue:
        build = self.build
        halves = along(build, build.cast(build.range(2), self.type), (_PAIR,), self.axes, self.sizes)
        offsets = build.binary(arith.AddiOp, self._spread(self.word), halves)
        pointers = tt.AddPtrOp(build.splat(self.base, self.sizes), offsets)
        around = [1] * len(self.access.sizes)
        pointers.attributes["tt.contiguity"] = _numbers([*around, 2])
        pointers.attributes["tt.divisibility"] = _numbers([*(2 for _ in around), 4])
        return build.pure(pointers)

    def _whole(self) -> SSAValue | None:
        """Where the other half is the tensor's too: at the next or the last position of the row. None for all."""
        if self._has_even_rows():
            return None
        build, size = self.build, self.access.memory.sizes[self.place]
        assert size is not None, "a dimension of known size was chosen"
        position = self.access.positions(self.place)
        back = build.binary(arith.MuliOp, build.cast(self.half, i64), 2)
        beside = build.binary(arith.SubiOp, build.binary(arith.AddiOp, position, 1), back)
        return build.compare("ult", beside, build.splat(build.number(size), self.access.sizes))

    def _has_even_rows(self) -> bool:
        """Whether rows begin with words and end with them."""
        memory, type_ = self.access.memory, self.access.operation.base.type
        others = [stride for number, stride in enumerate(memory.strides) if number != self.place]
        if not memory.is_aligned or 1 in others or not isinstance(type_, TensorArgumentType):
            return False
        size = type_.shape[self.place]
        return size % 2 == 0 if isinstance(size, int) else self.facts.divides(2, size)


def _numbers(values: Sequence[int]) -> DenseIntOrFPElementsAttr:
    return DenseIntOrFPElementsAttr.from_list(TensorType(i32, [len(values)]), list(values))
