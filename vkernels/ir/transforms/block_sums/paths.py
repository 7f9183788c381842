"""What a loop does to a value that it carries: does it only add to it, and how often an iteration?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects import math, scf
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...dialect import DotOp, arith, element_of, sizes_of
from ...facts import Facts
from .trips import most_trips

SUMMED_FLOATS = (Float32Type, Float64Type)
"""Elements that are added in floating point."""

RESCALED_ATTRIBUTE = "vk.rescaled"
"""Marks the product in an online sum that makes up for a larger maximum: its factor is at most 1, and what it makes too
small for a float does not count in the sum."""


@dataclass(frozen=True)
class Path:
    """From a carried value to what the iteration yields for it: through additions, and through at most one product.

    `adds`, `products`: how many additions an iteration makes one after another, and how many products dots add.
    `factor`: what the carried value is multiplied by, None if by nothing. `uses`: the operands that the path goes
    through, each with its operation. `is_read`: the value is used beside the path, which is then a single addition,
    perhaps where a mask holds.
    """

    adds: int = 0
    products: int = 0
    factor: SSAValue | None = None
    uses: tuple[tuple[Operation, int], ...] = ()
    is_read: bool = False

    def then(self, op: Operation, *operands: int, adds: int = 0, products: int = 0) -> Path:
        """The path, and on through an operation."""
        uses = (*self.uses, *((op, operand) for operand in operands))
        return replace(self, adds=self.adds + adds, products=self.products + products, uses=uses)

    @property
    def is_one_addition(self) -> bool:
        """Whether the path is a single addition, perhaps where a mask holds."""
        return [type(op) for op, _ in self.uses] in ([arith.AddfOp], [arith.AddfOp, arith.SelectOp, arith.SelectOp])

    def leaves(self, start: SSAValue) -> bool:
        """Whether the carried value is used beside the path."""
        return any((use.operation, use.index) not in self.uses for use in start.uses)


@dataclass(frozen=True)
class PathReader:
    """Finds paths. `lanes`: the axis along vector registers, along which a dot's products are added at once."""

    facts: Facts
    lanes: str | None
    on_gpu: bool

    def sums(self, loop: scf.ForOp) -> dict[int, Path]:
        """The paths of the floats that a loop carries only to add to them, by number."""
        last = _last_of(loop.body.block)
        found = {}
        for number, argument in enumerate(loop.body.block.args[1:]):
            if isinstance(element_of(argument.type), SUMMED_FLOATS):
                path = self._path(last.operands[number], argument)
                if path is None or not (path.adds or path.products):
                    continue
                if not path.leaves(argument):
                    found[number] = path
                elif path.is_one_addition:
                    found[number] = replace(path, is_read=True)
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
        if isinstance(op, DotOp):
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

    def _through_dot(self, op: DotOp, start: BlockArgument) -> Path | None:
        if self.on_gpu and is_for_matrix_units(op):
            return None
        found = self._path(op.sum, start)
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
        number = _number_of(op, value)
        joined = Path()
        for region in op.regions:
            last = _last_of(region.block)
            found = self._path(last.operands[number], start)
            if found is None or found.factor:
                return None
            adds, products = max(joined.adds, found.adds), max(joined.products, found.products)
            joined = Path(adds, products, None, (*joined.uses, *found.uses, (last, number)))
        return joined

    def _through_loop(self, op: scf.ForOp, value: SSAValue, start: BlockArgument) -> Path | None:
        """Through a short loop inside."""
        number, trips = _number_of(op, value), most_trips(op, self.facts)
        inner = self.sums(op).get(number)
        if inner is None or trips is None or inner.factor or inner.is_read:
            return None
        found = self._path(op.iter_args[number], start)
        return found and found.then(op, 3 + number, adds=trips * inner.adds, products=trips * inner.products)


def _last_of(block: Block) -> Operation:
    assert block.last_op is not None, "verified"
    return block.last_op


def _number_of(op: Operation, value: SSAValue) -> int:
    return next(number for number, result in enumerate(op.results) if result is value)


def is_for_matrix_units(op: DotOp) -> bool:
    """Whether a GPU's matrix units make the products: of narrow operands, or rounded to tf32."""
    return op.precision.data == "tf32" or all(isinstance(side.owner, arith.ExtFOp) for side in (op.left, op.right))
