"""Store a dot's result in parts where each element is an access of its own.

Elements of a tensor that is not aligned are stored one by one, and Triton computes the pointers of all elements that a
thread has before it stores the first: those of 128 elements fill 256 registers, those of 64 the 128 that 16 warps have,
and spill. Halves of the columns of a dot's result stay in the threads that have them, so cutting it moves nothing.
AMD's warps share columns; there results are stored whole (`compile_gpu.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import arith, tt

THIN = "vk.thin"
"""Marks stores whose elements are accesses of their own, until this pass has run."""
MANY, MOST = 64, 32
"""Elements a thread from which on a store is cut, and how many its parts have at most."""

_ELEMENTWISE = ("arith.", "math.", "tt.fp_to_fp", "tt.bitcast", "tt.addptr", "tt.precise_")


def store_in_parts(function: Operation, threads: int) -> None:
    """Cut stores of dots' results that have many elements a thread. `threads`: of a program; 0 where unknown."""
    for store in [op for op in function.walk() if isinstance(op, tt.StoreOp)]:
        is_thin = store.attributes.pop(THIN, None) is not None
        if is_thin and threads and _elements(store) >= MANY * threads:
            _cut(store, MOST * threads)


def _elements(store: tt.StoreOp) -> int:
    return prod(tt.shape(store.value.type))


def _cut(store: tt.StoreOp, most: int) -> None:
    """Put two stores of half as many elements in the place of one, and go on with these."""
    d = next((d for d in range(len(tt.shape(store.value.type))) if _is_of_columns(store, d)), None)
    if _elements(store) <= most or d is None:
        return
    columns: dict[SSAValue, Sequence[SSAValue]] = {}
    parts = []
    for which in (0, 1):
        half = _Half(store, which, columns)
        part = tt.StoreOp(*[half.of(operand, d) for operand in store.operands])
        half.inserted(part)
        parts.append(part)
    given = list(store.operands)
    Rewriter.erase_op(store)
    _erase_unused(given)
    for part in parts:
        _cut(part, most)


def _is_of_columns(store: tt.StoreOp, d: int) -> bool:
    """Whether the halves of a store along a dimension have those of a matrix's columns, and all else can be computed
    for half of the elements."""
    leaves: list[bool] = []
    can = all(_can_halve(operand, d, leaves) for operand in store.operands)
    return can and bool(leaves)


def _can_halve(value: SSAValue, d: int, leaves: list[bool]) -> bool:
    """Whether half of a value along a dimension can be had. `leaves`: gets an entry for each matrix that is cut."""
    op, sizes = value.owner, tt.shape(value.type)
    if sizes[d] < 2:
        return False
    if isinstance(op, tt.SplatOp | tt.MakeRangeOp):
        return True
    if (inside := _inside(value, d)) is not None and not isinstance(op, Block):
        return inside < 0 or _can_halve(op.operands[0], inside, leaves)
    if not isinstance(op, Block) and _is_elementwise(value):
        return all(not tt.shape(each.type) or _can_halve(each, d, leaves) for each in op.operands)
    if isinstance(op, tt.LoadOp):
        inside_load: list[bool] = []
        return all(_can_halve(each, d, inside_load) for each in op.operands) and not inside_load
    leaves.append(True)
    return len(sizes) == 2 and d == 1


def _is_elementwise(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, Block) or op.regions or len(op.results) != 1 or not op.name.startswith(_ELEMENTWISE):
        return False
    return bool(op.operands) and {tt.shape(each.type) for each in op.operands} <= {(), tt.shape(value.type)}


def _inside(value: SSAValue, d: int) -> int | None:
    """The dimension of what an operation gives another shape, whose halves those of `d` are; -1 where both halves have
    the whole of it. None for other operations, or if the halves are not those of one dimension."""
    op, sizes = value.owner, tt.shape(value.type)
    if isinstance(op, tt.ExpandDimsOp):
        return d - (d > op.axis.value.data)
    if isinstance(op, tt.TransOp):
        return int(op.order.get_values()[d])
    if isinstance(op, tt.BroadcastOp):
        return -1 if tt.shape(op.src.type)[d] == 1 else d
    if isinstance(op, tt.ReshapeOp):
        source = tt.shape(op.src.type)
        below = prod(sizes[d:])  # elements that the two halves have together
        return next((s for s, size in enumerate(source) if size > 1 and prod(source[s:]) == below), None)
    return None


@dataclass
class _Half:
    """One half of what an operation has, computed right before it. `columns`: both halves of the matrices that were
    cut."""

    before: Operation
    which: int
    columns: dict[SSAValue, Sequence[SSAValue]]
    made: dict[tuple[SSAValue, int], SSAValue] = field(default_factory=dict)

    def inserted(self, op: Operation) -> Operation:
        op.location = self.before.location
        Rewriter.insert_op(op, InsertPoint.before(self.before))
        return op

    def of(self, value: SSAValue, d: int) -> SSAValue:
        """The half of a value along a dimension."""
        if (value, d) not in self.made:
            self.made[value, d] = self._of(value, d)
        return self.made[value, d]

    def _of(self, value: SSAValue, d: int) -> SSAValue:
        op, sizes = value.owner, list(tt.shape(value.type))
        sizes[d] //= 2
        if isinstance(op, tt.SplatOp):
            return self._result(tt.SplatOp(op.src, sizes))
        if isinstance(op, tt.MakeRangeOp):
            return self._numbers(sizes[d])
        inside = _inside(value, d)
        if inside is not None and not isinstance(op, Block):
            source = op.operands[0] if inside < 0 else self.of(op.operands[0], inside)
            return self._result(_again(op, source, sizes))
        if isinstance(op, tt.LoadOp):  # where it was, before any store
            there = _Half(op, self.which, {})
            load = there.inserted(tt.LoadOp(*(there.of(each, d) for each in op.operands)))
            load.attributes |= op.attributes
            return load.results[0]
        if isinstance(op, Block) or not _is_elementwise(value):
            return self._columns(value)[self.which]
        operands = [self.of(each, d) if tt.shape(each.type) else each for each in op.operands]
        type_ = TensorType(tt.element(value.type), sizes)
        return self._result(
            type(op).create(operands=operands, result_types=[type_], properties=op.properties, attributes=op.attributes)
        )

    def _result(self, op: Operation) -> SSAValue:
        return self.inserted(op).results[0]

    def _numbers(self, count: int) -> SSAValue:
        numbers = self._result(tt.MakeRangeOp(count))
        if not self.which:
            return numbers
        first = self._result(arith.ConstantOp(IntegerAttr(count, i32)))
        return self._result(arith.AddiOp(numbers, self._result(tt.SplatOp(first, [count]))))

    def _columns(self, matrix: SSAValue) -> Sequence[SSAValue]:
        if matrix not in self.columns:
            rows, columns = tt.shape(matrix.type)
            apart = self._result(tt.TransOp(self._result(tt.ReshapeOp(matrix, [rows, 2, columns // 2])), (0, 2, 1)))
            half = TensorType(tt.element(matrix.type), [rows, columns // 2])
            self.columns[matrix] = self.inserted(tt.SplitOp(operands=[apart], result_types=[half, half])).results
        return self.columns[matrix]


def _again(op: Operation, source: SSAValue, sizes: Sequence[int]) -> Operation:
    """An operation that gives a value another shape, of half of it."""
    if isinstance(op, tt.ExpandDimsOp):
        return tt.ExpandDimsOp(source, op.axis.value.data)
    if isinstance(op, tt.TransOp):
        return tt.TransOp(source, op.order.get_values())
    return tt.BroadcastOp(source, sizes) if isinstance(op, tt.BroadcastOp) else tt.ReshapeOp(source, sizes)


def _erase_unused(values: Iterable[SSAValue]) -> None:
    """Erase what computes values that nobody uses."""
    for value in values:
        op = value.owner
        if isinstance(op, Block) or op.regions or op.parent is None:
            continue
        if not any(each.uses.get_length() for each in op.results):
            operands = list(op.operands)
            Rewriter.erase_op(op)
            _erase_unused(operands)
