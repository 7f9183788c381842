"""Turn dots of decoded, scaled operands into the scaled dots of tensor cores: `form-scaled-dots`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, bf16, f32, i8, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from ..analysis.scaled_operands import ScaledOperand, is_multiple, scaled_sides
from ..dialect import (
    BroadcastOp,
    DecodeOp,
    DotOp,
    GatherOp,
    Index,
    LoadOp,
    RepeatOp,
    ScaledDotOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)

LEAST_SIDE = 16
"""The fewest rows, and columns, of a scaled dot: as of Triton's other dots."""
LEAST_ELEMENTS = 32
"""The fewest elements along the contracted axis, as of Triton's dots of f8."""
LEAST_NATIVE = 64
"""The fewest elements along the contracted axis of a scaled dot: what one instruction takes of fp4 wherever there is
one, and gfx950 of mxfp8."""


@dataclass(frozen=True)
class FormScaledDots(ModulePass):
    """Replace dots of operands that are decoded and multiplied by their blocks' scales: by `vk.scaled_dot` where tensor
    cores take the format (`native`); else, where `bf16`, round operands to bf16, which holds them exactly if normal.

    Scales are loaded once a block. Dots are left as they are where blocks and chunks do not fit each other, and where
    they are smaller than tensor cores take. Of two sums for both halves of fp4 bytes one remains.
    """

    name = "form-scaled-dots"
    result = "mapped IR in which dots of mxfp8, mxfp4 and nvfp4 are on tensor cores, their scales loaded once a block"

    native: tuple[str, ...] = ()
    bf16: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dot, high in list(_found(op)):
            sides = scaled_sides(dot)
            assert sides is not None, "found"
            if sides[0].format in self.native and _elements(sides[0]) >= LEAST_NATIVE:
                _replace(dot, high, sides)
            elif self.bf16:
                _as_bf16(dot, high, sides)


def _found(module: ModuleOp) -> Iterator[tuple[DotOp, DotOp | None]]:
    """Dots to replace; of fp4 that of the lower halves, with that of the higher ones."""
    dots = {dot: sides for dot in module.walk() if isinstance(dot, DotOp) and (sides := _fitting(dot)) is not None}
    for dot, sides in dots.items():
        if not sides[0].half:
            yield dot, None
        elif sides[0].half == "e2m1_low":
            others = [
                other for other, both in dots.items() if other.parent is dot.parent and _is_high_half_of(both, sides)
            ]
            if len(others) == 1:
                yield dot, others[0]


def _is_high_half_of(sides: tuple[ScaledOperand, ...], low: tuple[ScaledOperand, ...]) -> bool:
    return all(
        one.half == "e2m1_high" and (one.source, one.scale) == (other.source, other.scale)
        for one, other in zip(sides, low, strict=True)
    )


def _fitting(dot: DotOp) -> tuple[ScaledOperand, ScaledOperand] | None:
    """A dot's scaled operands, where it is large enough and its positions are whole blocks."""
    sides = scaled_sides(dot)
    if sides is None:
        return None
    axis, shared = dot.axis.data, set(axes_of(dot.left)) & set(axes_of(dot.right))
    for value in (dot.left, dot.right):
        if prod(size for name, size in sizes_of(value).items() if name not in shared) < LEAST_SIDE:
            return None
    for side in sides:
        if _elements(side) < LEAST_ELEMENTS or sizes_of(side.source)[axis] % side.positions:
            return None
        if not is_multiple(side.base, side.positions):
            return None
    return sides


def _elements(side: ScaledOperand) -> int:
    """Elements along the contracted axis."""
    return sizes_of(side.source)[side.axis] * (2 if side.half else 1)


def _replace(dot: DotOp, high: DotOp | None, sides: Sequence[ScaledOperand]) -> None:
    """One dot of operands and scales as they are in memory."""
    before = _Before(dot)
    blocks = f"{dot.axis.data}.blocks"
    left, right = ((side.source, _scales(before, side, blocks)) for side in sides)
    total = before.add(ScaledDotOp(left, right, dot.sum, dot.axis.data, blocks))
    total.name_hint = dot.result.name_hint
    _replace_sums(dot, high, total)


def _as_bf16(dot: DotOp, high: DotOp | None, sides: Sequence[ScaledOperand]) -> None:
    """Dots of operands times their scales in bf16, one after another into one sum."""
    before, axis = _Before(dot), dot.axis.data
    blocks = f"{axis}.blocks"
    factors: list[SSAValue] = []
    for side in sides:
        scale = _scales(before, side, blocks)
        number = DecodeOp(scale, "e8m0") if element_of(scale) == i8 else arith.ExtFOp(scale, _with(scale, f32))
        factors.append(before.add(RepeatOp(before.add(number), blocks, axis, sizes_of(side.source)[axis])))
    total = dot.sum
    for half in ("e2m1_low", "e2m1_high") if high is not None else ("",):
        operands: list[SSAValue] = []
        for side, factor in zip(sides, factors, strict=True):
            source = side.source
            number = DecodeOp(source, half) if half else arith.ExtFOp(source, _with(source, f32))
            value = before.add(number)
            if axes_of(value) != axes_of(factor):
                factor = before.add(BroadcastOp(factor, value.type))
            product = before.add(arith.MulfOp(value, factor))
            rounded = before.add(arith.TruncFOp(product, _with(product, bf16)))
            operands.append(before.add(arith.ExtFOp(rounded, product.type)))
        total = before.add(DotOp(operands[0], operands[1], total, axis, dot.precision.data))
    total.name_hint = dot.result.name_hint
    _replace_sums(dot, high, total)


def _with(value: SSAValue, element: Attribute) -> Attribute:
    sizes = sizes_of(value)
    return tile_type(element, sizes, sizes.values())


def _replace_sums(dot: DotOp, high: DotOp | None, total: SSAValue) -> None:
    """Use a sum instead of a dot's. The sum of upper halves gets nothing then, and stays what it begins with."""
    dead = [*dot.operands]
    dot.result.replace_all_uses_with(total)
    Rewriter.erase_op(dot)
    if high is not None:
        dead += high.operands
        high.result.replace_all_uses_with(high.sum)
        Rewriter.erase_op(high)
    _erase_unused(dead)


@dataclass(frozen=True)
class _Before:
    """Inserts operations before another, at its source location."""

    op: Operation

    def add(self, made: Operation) -> SSAValue:
        made.location = self.op.location
        Rewriter.insert_op(made, InsertPoint.before(self.op))
        return made.results[0]


def _scales(before: _Before, side: ScaledOperand, blocks: str) -> SSAValue:
    """Load an operand's scales, one a block."""
    gather, add = side.scale, before.add

    def over(value: SSAValue) -> SSAValue:
        return add(arith.DivUIOp(value, add(arith.ConstantOp(IntegerAttr(side.positions, i64)))))

    indices: list[Index] = []
    for dimension, index in enumerate(gather.index.data):
        if dimension == side.dimension:
            indices.append((((blocks, 1),), None if side.base is None else over(side.base)))
        else:
            indices.append((tuple(index.terms), gather.offset_of(dimension)))
    bounds = dict(gather.bounds)
    if (count := bounds.pop(side.axis, None)) is not None:
        last = add(arith.ConstantOp(IntegerAttr(side.positions - 1, i64)))
        bounds[blocks] = over(add(arith.AddiOp(count, last)))
    found = sizes_of(gather.result)
    sizes = {blocks if name == side.axis else name: size for name, size in found.items()}
    sizes[blocks] //= side.positions
    type_ = tile_type(element_of(gather.result), sizes, sizes.values())
    scales = add(LoadOp(gather.base, indices, type_, bounds=bounds, guarded=gather.guarded_dimensions))
    if len(sizes) == len(sizes_of(side.source)):
        return scales
    whole = {blocks if name == side.axis else name: size for name, size in sizes_of(side.source).items()}
    whole[blocks] = sizes[blocks]
    return add(BroadcastOp(scales, tile_type(element_of(scales), whole, whole.values())))


def _erase_unused(values: list[SSAValue]) -> None:
    """Erase operations on tiles that nobody uses any longer, and what only they used."""
    while values:
        owner = values.pop().owner
        if not isinstance(owner, Operation) or any(result.uses for result in owner.results) or owner.parent is None:
            continue
        if owner.has_trait(Pure) or isinstance(owner, LoadOp | GatherOp):
            values += owner.operands
            Rewriter.erase_op(owner)


__all__ = ["FormScaledDots"]
