"""`vk.dot`: Triton's dot where it is large enough, else products that are added up."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import UnitAttr, f32, i8, i32, i64
from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import Attribute, Block, SSAValue

from vkernels.ir.dialect import DotOp, ScaledDotOp, arith, axes_of, sizes_of, tt
from vkernels.ir.dialect.combining import combining

from ..common import is_half, is_quarter
from .builder import TtirBuilder
from .operand_groups import DotShape, dot_shape, is_turned
from .reductions import reduced
from .state import TtirState
from .tiles import along, transposed

LEAST = 16
"""The least number of elements of each side of Triton's dot; twice as many of the contracted one for i8 and f8."""

IMPRECISE = 128
"""Products of f8 that may be added in fewer bits than f32 has, where precision is not "ieee": only then do tensor cores
of sm_90 take f8 itself."""

WHOLE_OPERANDS = "tt.whole_operands"
"""An attribute of dots of one-byte operands. Triton reads the first part of the next trip's operands from shared memory
ahead, and carries them through the loop element by element, where a register has four: for each to be taken apart and
put together costs several times what the dot does. Its adapter leaves that pass out where a text has such dots."""

_HALF = 128
"""An unsigned i8 minus the signed one with the top bit flipped."""

MOST_PRODUCTS = 1 << 13
"""Products that a program holds at once in registers, where they are added up without Triton's dot."""


def lower_dot(state: TtirState, operation: DotOp) -> None:
    shape = dot_shape(operation)
    left, right, total = (state.value(operand) for operand in operation.operands)
    narrow = (_narrowed(left), _narrowed(right))
    for a, b in (narrow, (left, right)):
        if _fits(shape, tt.element(a.type), tt.element(b.type), tt.element(total.type)):
            a, b, total = _signed(state, operation, shape, (left, a), (right, b), total)
            state.define(operation.result, _dot(state, operation, shape, a, b, total))
            return
    state.define(operation.result, _added_up(state, operation, shape, left, right, total))


def _signed(
    state: TtirState,
    operation: DotOp,
    shape: DotShape,
    left: tuple[SSAValue, SSAValue],
    right: tuple[SSAValue, SSAValue],
    total: SSAValue,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Operands (as i32, narrow) and the sum for Triton's dot of i8, which is signed.

    An unsigned x is s + 128, where s is its bits with the top one flipped, as a signed number. So the sum of x y is
    the sum of s y plus 128 times the sum of y; and likewise where y is unsigned.
    """
    (a, narrow_a), (b, narrow_b) = left, right
    rows, columns = (*shape.batch, *shape.rows), (*shape.batch, *shape.columns)
    if _is_unsigned(a):
        narrow_a = state.build.binary(arith.XOrIOp, narrow_a, _HALF)
        total = _plus_sum(state, operation, shape, b, axes_of(operation.right), columns, total)
    if _is_unsigned(b):
        narrow_b = state.build.binary(arith.XOrIOp, narrow_b, _HALF)
        a = state.build.unary(arith.ExtSIOp, narrow_a, i32)
        total = _plus_sum(state, operation, shape, a, axes_of(operation.left), rows, total)
    return narrow_a, narrow_b, total


def _plus_sum(
    state: TtirState,
    operation: DotOp,
    shape: DotShape,
    value: SSAValue,
    axes: Sequence[str],
    rest: tuple[str, ...],
    total: SSAValue,
) -> SSAValue:
    """A sum, and 128 times an operand added up along the contracted axis; `rest`: its other axes."""
    build, to = state.build, axes_of(operation.sum)
    moved = transposed(build, value, axes, (*rest, shape.axis))
    scaled = build.binary(arith.MuliOp, reduced(state, moved, len(rest), "sum"), _HALF)
    return build.binary(arith.AddiOp, total, along(build, scaled, rest, to, [shape.sizes[axis] for axis in to]))


def lower_scaled_dot(state: TtirState, operation: ScaledDotOp) -> None:
    """Triton's scaled dot, which devices without such an instruction take as one of bf16."""
    build, shape, blocks = state.build, dot_shape(operation), operation.blocks.data
    shape.sizes[blocks] = sizes_of(operation.left_scale)[blocks]
    batch, rows, columns, axis = shape.batch, shape.rows, shape.columns, (shape.axis,)
    groups = (
        (operation.left, (batch, rows, axis)),
        (operation.left_scale, (batch, rows, (blocks,))),
        (operation.right, (batch, axis, columns)),
        (operation.right_scale, (batch, columns, (blocks,))),
        (operation.sum, (batch, rows, columns)),
    )
    operands = [_grouped(build, state.value(value), axes_of(value), group, shape) for value, group in groups]
    result, order = build.result(tt.DotScaledOp(*operands)), (*batch, *rows, *columns)
    state.define(operation.result, _ungrouped(build, result, order, axes_of(operation.sum), shape))


def _narrowed(value: SSAValue) -> SSAValue:
    """The f16, bf16, f8 or i8 tile that a value was extended from, or else the value itself."""
    if isinstance(value.owner, arith.ExtFOp | tt.FpToFpOp | arith.ExtSIOp | arith.ExtUIOp):
        source = value.owner.operands[0]
        element = tt.element(source.type)
        if is_half(element) or is_quarter(element) or element == i8:
            return source
    return value


def _is_unsigned(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ExtUIOp) and tt.element(value.owner.input.type) == i8


def _fits(shape: DotShape, left: Attribute, right: Attribute, total: Attribute) -> bool:
    """Whether Triton has such a dot, of operands of these elements."""
    is_float = left == f32 or is_half(left) or is_quarter(left)
    if left != right or not ((total == f32 and is_float) or (left == i8 and total == i32)):
        return False
    sides = (shape.count(shape.rows), shape.count(shape.columns))
    return min(sides) >= LEAST and shape.sizes[shape.axis] >= (2 * LEAST if left == i8 or is_quarter(left) else LEAST)


def _dot(
    state: TtirState, operation: DotOp, shape: DotShape, left: SSAValue, right: SSAValue, total: SSAValue
) -> SSAValue:
    """Triton's dot, with the axes of each kind joined into one, and its operands in either order."""
    build, operands = state.build, state.operands
    batch, rows, columns, axis = shape.batch, shape.rows, shape.columns, (shape.axis,)
    axes = axes_of(operation.sum)
    of_left, of_right = axes_of(operation.left), axes_of(operation.right)
    if is_turned(operation, shape):
        (left, of_left, rows), (right, of_right, columns) = (right, of_right, columns), (left, of_left, rows)
    order = (*batch, *rows, *columns)
    a = operands[left] if left in operands else _operand(build, left, of_left, (batch, rows, axis), shape)
    b = operands[right] if right in operands else _operand(build, right, of_right, (batch, axis, columns), shape)
    c = _grouped(build, total, axes, (batch, rows, columns), shape)
    precision = operation.precision.data
    imprecise = IMPRECISE if precision == "tf32" and is_quarter(tt.element(left.type)) else 0
    if imprecise and state.adds_float8 and shape.sizes[shape.axis] <= IMPRECISE:
        # A sum of its own for each dot, which Triton takes apart where this allows no more products than the dot has.
        products = build.result(tt.DotOp(a, b, build.filled(0, c.type), precision, 2 * IMPRECISE))
        total = build.binary(arith.AddfOp, c, products)
    else:
        dot = tt.DotOp(a, b, c, precision, imprecise)
        if is_quarter(tt.element(a.type)) or tt.element(a.type) == i8:
            dot.attributes[WHOLE_OPERANDS] = UnitAttr()
        total = build.result(dot)
    return _ungrouped(build, total, order, axes, shape)


def _ungrouped(
    build: TtirBuilder, result: SSAValue, order: tuple[str, ...], axes: Sequence[str], shape: DotShape
) -> SSAValue:
    """A result with one dimension for each axis, in another order; `order`: its axes as they are joined."""
    sizes = [shape.sizes[name] for name in order]
    if tt.shape(result.type) != tuple(sizes):
        result = build.pure(tt.ReshapeOp(result, sizes))
    return transposed(build, result, order, axes)


def _operand(
    build: TtirBuilder, value: SSAValue, axes: Sequence[str], groups: Sequence[tuple[str, ...]], shape: DotShape
) -> SSAValue:
    """`_grouped`, but axes of one position go first where the others are in another order: Triton reads a transposed
    operand where it lies in shared memory only if it is a matrix, and copies any other there once more."""
    long = [axis for axis in axes if shape.sizes[axis] > 1]
    wanted = [axis for group in groups for axis in group if axis in long]
    if len(long) < len(axes) and long != wanted:
        value, axes = build.pure(tt.ReshapeOp(value, [shape.sizes[axis] for axis in long])), long
        groups = [tuple(axis for axis in group if axis in long) for group in groups]
    return _grouped(build, value, axes, groups, shape)


def _grouped(
    build: TtirBuilder, value: SSAValue, axes: Sequence[str], groups: Sequence[tuple[str, ...]], shape: DotShape
) -> SSAValue:
    """A tile with one dimension for each group of axes; a batch of one is left out."""
    value = transposed(build, value, axes, [axis for group in groups for axis in group])
    sizes = [shape.count(group) for number, group in enumerate(groups) if number or shape.count(group) > 1]
    return value if tt.shape(value.type) == tuple(sizes) else build.pure(tt.ReshapeOp(value, sizes))


def _added_up(
    state: TtirState, operation: DotOp, shape: DotShape, left: SSAValue, right: SSAValue, total: SSAValue
) -> SSAValue:
    """Products added up, slice by slice along the contracted axis where they are too many at once."""
    build, axes, count = state.build, axes_of(operation.sum), shape.sizes[shape.axis]
    left = transposed(build, left, axes_of(operation.left), (*shape.batch, *shape.rows, shape.axis))
    right = transposed(build, right, axes_of(operation.right), (*shape.batch, *shape.columns, shape.axis))
    at_once = max(1, min(count, MOST_PRODUCTS // max(1, prod(tt.shape(total.type)))))
    if at_once == count:
        return _plus_products(state, shape, left, right, total, axes, count)
    slices = count // at_once
    # Each operand's last dimension becomes two: slices, and elements of each.
    left, right = (
        build.pure(tt.ReshapeOp(value, [*tt.shape(value.type)[:-1], slices, at_once])) for value in (left, right)
    )
    bounds = [build.number(number) for number in (0, slices, 1)]
    body = Block(arg_types=[i64, total.type])
    with build.region(body):
        a, b = (_slice(state, value, body.args[0]) for value in (left, right))
        build.add(YieldOp(_plus_products(state, shape, a, b, body.args[1], axes, at_once)))
    loop = ForOp(bounds[0], bounds[1], bounds[2], [total], body)
    build.add(loop)
    return loop.results[0]


def _plus_products(
    state: TtirState,
    shape: DotShape,
    left: SSAValue,
    right: SSAValue,
    total: SSAValue,
    axes: tuple[str, ...],
    count: int,
) -> SSAValue:
    build = state.build
    every = (*axes, shape.axis)
    sizes = [*(shape.sizes[axis] for axis in axes), count]
    a = along(build, left, (*shape.batch, *shape.rows, shape.axis), every, sizes)
    b = along(build, right, (*shape.batch, *shape.columns, shape.axis), every, sizes)
    element = tt.element(total.type)
    summed = reduced(state, build.binary(combining("product", element), a, b), len(axes), "sum")
    return build.binary(combining("sum", element), total, summed)


def _slice(state: TtirState, value: SSAValue, number: SSAValue) -> SSAValue:
    """One slice: the others become 0 and all are added up, since Triton cannot take a part of a tensor."""
    build, sizes = state.build, tt.shape(value.type)
    dimension = len(sizes) - 2
    axes = [str(d) for d in range(len(sizes))]
    wanted = build.splat(build.number(number, i32), [sizes[dimension]])
    chosen = build.compare("eq", build.range(sizes[dimension]), wanted)
    mask = along(build, chosen, [str(dimension)], axes, sizes)
    return reduced(state, build.select(mask, value, build.filled(0, value.type)), dimension, "sum")
