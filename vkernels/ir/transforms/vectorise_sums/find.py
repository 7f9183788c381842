"""Find loops that add up what they gather from the scratchpad, and how much a thread takes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects import math, scf
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, IntegerType, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...analysis.accesses import constant_of, is_inside
from ...dialect import (
    BroadcastOp,
    GatherOp,
    LoadOp,
    ScratchType,
    TensorArgumentType,
    arith,
    axes_of,
    element_of,
    sizes_of,
)
from ...dialect.blocks import terminator
from ...facts import Facts

VECTOR_BYTES = 16
"""Bytes that a thread loads or stores at once at most."""
BLOCK = 4
"""Positions at once: 16 bytes of the indices and of the weights in their usual 32 bits."""
MOST_SUMS = 64
"""Sums that a thread holds at most, one for each of its elements and positions of a block. With as many registers for
what is gathered, and some for addresses, they fit the 255 of a thread, and 16 warps of them a multiprocessor."""

Read = LoadOp | GatherOp


@dataclass(frozen=True)
class GatherSum:
    """A loop whose iterations add `added` to what it carries, one value each; all have the same `sizes`.

    `lanes`: the axis of neighbouring elements in the scratchpad. `vector`: how many of them a thread takes at once.
    `block`: positions at once. `wide`: loads whose elements for neighbouring positions lie side by side.
    """

    loop: scf.ForOp
    added: tuple[SSAValue, ...]
    sizes: dict[str, int]
    lanes: str
    vector: int
    block: int
    wide: frozenset[LoadOp]

    @property
    def position(self) -> SSAValue:
        return self.loop.body.block.args[0]


def gather_sum(loop: scf.ForOp, lanes: str, threads: int, facts: Facts) -> GatherSum | None:
    """The loop as one to rewrite; None where it is another, or where a thread has too few elements to gain."""
    added = _added(loop)
    if (
        added is None
        or constant_of(loop.step) != 1
        or not all(_is_known(op, loop, added) for op in _others(loop, added))
    ):
        return None
    sizes = sizes_of(loop.results[0])
    reads = [op for op in loop.body.block.ops if isinstance(op, LoadOp | GatherOp)]
    along = [op for op in reads if lanes in axes_of(op.result)]
    if any(sizes_of(result) != sizes for result in loop.results) or lanes not in sizes or not along:
        return None
    if not all(_takes_rows(op, lanes) for op in along) or not any(isinstance(op, GatherOp) for op in along):
        return None
    elements = prod(sizes.values()) // threads
    vector = min([elements, sizes[lanes], *(_vector(op) for op in along)])
    wide = frozenset(op for op in reads if isinstance(op, LoadOp) and _is_wide(op, loop, facts))
    block = BLOCK if wide and all(op in wide for op in reads if _moves(op, loop)) else 1
    while block > 1 and block * elements > MOST_SUMS:
        block //= 2
    if vector < 1 or vector * block == 1:
        return None
    return GatherSum(loop, added, sizes, lanes, vector, block, wide if block > 1 else frozenset())


def _added(loop: scf.ForOp) -> tuple[SSAValue, ...] | None:
    """What an iteration adds to each value that the loop carries; None where it does something else with one."""
    found = []
    for carried, handed in zip(loop.body.block.args[1:], terminator(loop.body.block).operands, strict=True):
        op = handed.owner
        if not isinstance(op, arith.AddfOp | arith.AddiOp) or op.attributes or op.parent is not loop.body.block:
            return None
        others = [operand for operand in op.operands if operand is not carried]
        if len(others) != 1 or carried.uses.get_length() != 1 or handed.uses.get_length() != 1:
            return None
        found.append(others[0])
    return tuple(found) or None


def _others(loop: scf.ForOp, added: tuple[SSAValue, ...]) -> Iterator[Operation]:
    """The operations of the body but for those that add to what it carries."""
    sums = [operand.owner for operand in terminator(loop.body.block).operands]
    yield from (op for op in loop.body.block.ops if op is not loop.body.block.last_op and op not in sums)


def _is_known(op: Operation, loop: scf.ForOp, added: tuple[SSAValue, ...]) -> bool:
    """Whether an operation computes each element from those at the same position, or reads memory without a mask."""
    if isinstance(op, LoadOp | GatherOp):
        return op.mask is None and op.described is None and not any(is_inside(c, loop) for c in op.counts)
    if isinstance(op, arith.ConstantOp):
        return not isinstance(op.value, DenseIntOrFPElementsAttr) or op.value.is_splat()
    if isinstance(op, BroadcastOp):
        return is_inside(op.source, loop) or not isinstance(op.source.type, TensorType)
    is_elementwise = op.dialect_name() in (arith.ARITH.name, math.Math.name)
    outer = [operand for operand in op.operands if not is_inside(operand, loop)]
    return is_elementwise and len(op.results) == 1 and not any(isinstance(value.type, TensorType) for value in outer)


def _takes_rows(op: Read, lanes: str) -> bool:
    """Whether a read takes whole rows of a scratchpad along the lanes, and finds nothing by them."""
    *before, last = op.index.data
    is_row = dict(last.terms) == {lanes: 1} and op.offset_of(len(before)) is None
    by_lanes = any(lanes in dict(index.terms) for index in before)
    found = any(lanes in axes_of(offset) for offset in op.offsets)
    return isinstance(op.base.type, ScratchType) and is_row and not by_lanes and not found and not op.bounds


def _vector(op: Read) -> int:
    """Neighbouring elements of a scratchpad's rows that one access may take."""
    element, length = element_of(op.result), op.memory.shape[-1]
    assert isinstance(element, AnyFloat | IntegerType), "elements are numbers"
    assert isinstance(length, int), "scratchpads of mapped kernels have constant sizes"
    most = max(1, VECTOR_BYTES // max(1, element.bitwidth // 8))
    return max(n for n in (1, 2, 4, 8, 16) if n <= most and length % n == 0)


def _is_wide(op: LoadOp, loop: scf.ForOp, facts: Facts) -> bool:
    """Whether the elements that a load takes for neighbouring positions lie side by side in a tensor."""
    position = loop.body.block.args[0]
    if not isinstance(op.base.type, TensorArgumentType) or not isinstance(op.base, BlockArgument):
        return False
    strides = facts.strides.get(str(op.base.name_hint), ())
    at = [d for d in range(len(op.index)) if op.offset_of(d) is position]
    if len(at) != 1 or op.index.data[at[0]].terms or op.guarded_dimensions:
        return False
    others = [op.offset_of(d) for d in range(len(op.index)) if d not in at]
    is_found = any(offset is not None and is_inside(offset, loop) for offset in others)
    return not is_found and len(strides) > at[0] and strides[at[0]] == 1


def _moves(op: Read, loop: scf.ForOp) -> bool:
    """Whether a read of a tensor takes other elements at each position."""
    return not isinstance(op.base.type, ScratchType) and any(is_inside(offset, loop) for offset in op.offsets)
