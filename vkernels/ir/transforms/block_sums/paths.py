"""Which values a loop only adds to, how many additions it may make, and how many additions a block has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects import math, scf
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...analysis.accesses import constant_of
from ...dialect import DotOp, SizeOp, WordDotOp, arith, element_of, sizes_of
from ...dialect.blocks import terminator
from ...facts import Facts
from ...word_kinds import KINDS, MATRIX_SIDE

SUMMED_FLOATS = (Float32Type, Float64Type)
"""Elements that are added in floating point."""

ODD_ERRS = 4
"""How many times as much a sum of products errs that is rounded to odd: twice a unit each time, and one way for equal
numbers, as whether the last bit is odd then decides."""

RESCALED_ATTRIBUTE = "vk.rescaled"
"""Marks the product in an online sum that corrects for a larger maximum: its factor is at most 1, so elements that
underflow do not matter in the sum."""


@dataclass(frozen=True)
class Path:
    """From a carried value to the value that the iteration yields for it, through additions and at most one product.

    `adds`, `products`: how many additions an iteration makes one after another, and how many products dots add.
    `factor`: the factor of the carried value, if any. `uses`: the operands on the path, each with its operation.
    `is_read`: the value has other uses; the path is then a single addition, possibly under a mask.
    """

    adds: int = 0
    products: int = 0
    factor: SSAValue | None = None
    uses: tuple[tuple[Operation, int], ...] = ()
    is_read: bool = False

    def then(self, op: Operation, *operands: int, adds: int = 0, products: int = 0) -> Path:
        """The path extended by an operation."""
        uses = (*self.uses, *((op, operand) for operand in operands))
        return replace(self, adds=self.adds + adds, products=self.products + products, uses=uses)

    @property
    def is_one_addition(self) -> bool:
        """Whether the path is a single addition, possibly under a mask."""
        return [type(op) for op, _ in self.uses] in ([arith.AddfOp], [arith.AddfOp, arith.SelectOp, arith.SelectOp])

    def leaves(self, start: SSAValue) -> bool:
        """Whether the carried value has uses outside of the path."""
        return any((use.operation, use.index) not in self.uses for use in start.uses)


@dataclass(frozen=True)
class PathReader:
    """Finds paths. `lanes`: the axis along vector registers, along which a dot's products are added at once."""

    facts: Facts
    lanes: str | None
    on_gpu: bool

    def sums(self, loop: scf.ForOp) -> dict[int, Path]:
        """The paths of the floats that a loop only adds to, by number."""
        found = {}
        yielded = terminator(loop.body.block).operands
        for number, (value, argument) in enumerate(zip(yielded, loop.body.block.args[1:], strict=True)):
            path = self._path(value, argument) if isinstance(element_of(argument), SUMMED_FLOATS) else None
            if path is not None and (path.adds or path.products):
                is_read = path.leaves(argument)
                if not is_read or path.is_one_addition:
                    found[number] = replace(path, is_read=is_read)
        return found

    def _path(self, value: SSAValue, start: BlockArgument) -> Path | None:
        if value is start:
            return Path()
        op = value.owner
        if isinstance(op, Block) or not value.has_one_use():
            return None
        if isinstance(op, arith.AddfOp):
            return self._through_either(op, start, adds=1)
        if isinstance(op, math.FmaOp):
            found = self._path(op.c, start)
            return found and found.then(op, 2, adds=1)
        if isinstance(op, DotOp | WordDotOp):
            return self._through_dot(op, start)
        if isinstance(op, arith.MulfOp) and RESCALED_ATTRIBUTE in op.attributes:
            found = self._through_either(op, start, adds=0)
            if found is None or found.factor is not None:
                return None
            return replace(found, factor=op.operands[1 - found.uses[-1][1]])
        if isinstance(op, arith.SelectOp):
            return self._through_select(op, start)
        if isinstance(op, scf.IfOp) and op.false_region.blocks:
            return self._through_if(op, value, start)
        if isinstance(op, scf.ForOp):
            return self._through_loop(op, value, start)
        return None

    def _through_either(self, op: Operation, start: BlockArgument, adds: int) -> Path | None:
        for number, operand in enumerate(op.operands):
            found = self._path(operand, start)
            if found is not None:
                return found.then(op, number, adds=adds)
        return None

    def _through_dot(self, op: DotOp | WordDotOp, start: BlockArgument) -> Path | None:
        if self.on_gpu and (isinstance(op, WordDotOp) or is_for_matrix_units(op)):
            return None
        found = self._path(op.sum, start)
        if isinstance(op, WordDotOp):
            if KINDS[op.kind.data].matrix:  # which adds its products up before it adds them to the sum
                times = sizes_of(op.left)[op.axis.data] // MATRIX_SIDE * KINDS[op.kind.data].parts
                return found and found.then(op, 2, adds=times)
            errs = ODD_ERRS if KINDS[op.kind.data].odd else 1
            return found and found.then(op, 2, products=errs * op.depth * sizes_of(op.left)[op.axis.data])
        length = 1 if op.axis.data == self.lanes else sizes_of(op.left)[op.axis.data]
        return found and found.then(op, 2, products=length)

    def _through_select(self, op: arith.SelectOp, start: BlockArgument) -> Path | None:
        """Additions where a mask holds, none elsewhere."""
        for number in (1, 2):
            if op.operands[3 - number] is start:
                found = self._path(op.operands[number], start)
                return None if found is None or found.factor else found.then(op, 1, 2)
        return None

    def _through_if(self, op: scf.IfOp, value: SSAValue, start: BlockArgument) -> Path | None:
        number = op.results.index(value)
        joined = Path()
        for region in op.regions:
            last = terminator(region.block)
            found = self._path(last.operands[number], start)
            if found is None or found.factor:
                return None
            adds, products = max(joined.adds, found.adds), max(joined.products, found.products)
            joined = Path(adds, products, None, (*joined.uses, *found.uses, (last, number)))
        return joined

    def _through_loop(self, op: scf.ForOp, value: SSAValue, start: BlockArgument) -> Path | None:
        """Through a short loop inside."""
        number, trips = op.results.index(value), most_trips(op, self.facts)
        inner = self.sums(op).get(number)
        if inner is None or trips is None or inner.factor or inner.is_read:
            return None
        found = self._path(op.iter_args[number], start)
        return found and found.then(op, 3 + number, adds=trips * inner.adds, products=trips * inner.products)


def is_for_matrix_units(op: DotOp) -> bool:
    """Whether a GPU's matrix units make the products: of narrow operands, or rounded to tf32."""
    return op.precision.data == "tf32" or all(isinstance(side.owner, arith.ExtFOp) for side in (op.left, op.right))


def most_trips(loop: scf.ForOp, facts: Facts) -> int | None:
    """The most iterations of a loop; None if facts do not bound them."""
    step, most = constant_of(loop.step), _most_between(loop.lb, loop.ub, facts)
    return None if most is None or step is None or step < 1 else max(0, -(-most // step))


def _most_between(start: SSAValue, stop: SSAValue, facts: Facts) -> int | None:
    """An upper bound of `stop - start`, both i64 scalars of at least 0."""
    first, op = constant_of(start), stop.owner
    if isinstance(op, arith.MinSIOp):
        return _least(_most_between(start, op.lhs, facts), _most_between(start, op.rhs, facts))
    if isinstance(op, arith.AddiOp):
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if one is start:
                return most_of(other, facts)
    most = most_of(stop, facts)
    return most if most is None or first is None else most - first


def most_of(value: SSAValue, facts: Facts) -> int | None:
    """An upper bound of scalar i64 arithmetic on sizes; all numbers are at least 0."""
    op = value.owner
    if isinstance(op, SizeOp):
        return facts.most(op.size.data)
    if isinstance(op, arith.MinSIOp):
        return _least(most_of(op.lhs, facts), most_of(op.rhs, facts))
    if isinstance(op, arith.SubiOp):
        return _most_between(op.rhs, op.lhs, facts)
    if isinstance(op, arith.AddiOp | arith.MuliOp):
        left, right = most_of(op.lhs, facts), most_of(op.rhs, facts)
        if left is None or right is None:
            return None
        return left + right if isinstance(op, arith.AddiOp) else left * right
    if isinstance(op, arith.FloorDivSIOp | arith.CeilDivSIOp):
        left, by = most_of(op.lhs, facts), constant_of(op.rhs)
        if left is None or by is None or by < 1:
            return None
        return left // by if isinstance(op, arith.FloorDivSIOp) else -(-left // by)
    return constant_of(value)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
