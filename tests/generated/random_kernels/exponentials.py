"""Exponentials relative to a maximum, and sums of them that can go online with it."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import math

from vkernels.ir.dialect import DotOp, arith, tile_type

from .memory import load
from .steps import alike, compared, pick, tamed, wholes
from .values import ELEMENTS, EPSILON, MOST_ELEMENTS, Axis, Kernel, Value

HEAVIEST = 16.0
"""The largest weight of an exponential."""


def exponentials(kernel: Kernel) -> Value | None:
    """A sum of exp(x - maximum), plain, rounded, hidden or weighted; others of the same exponentials may be live."""
    axes = wholes(kernel)
    if not axes:
        return None
    axis = kernel.random.choice(axes)
    value = tamed(kernel, pick(kernel, kind="f", axis=axis.name), 64)
    if not value.is_float or axis.name not in value.axes or value.error > 0.1:
        return None
    highest = kernel.reduce("max", value, axis.name)
    below = kernel.apply(arith.SubfOp, value, highest, bound=2 * value.bound, error=2 * value.error)
    made = kernel.maths(kernel.random.choice([math.ExpOp, math.Exp2Op]), below, 1.3, 1.3)
    kernel.online.add(axis.name)
    kernel.live += kernel.random.choice([[], [], [made], [highest]])
    part = _part(kernel, made)
    for _ in range(kernel.random.choice([0, 0, 1, 2])):
        kernel.live.append(_weighted(kernel, part, axis) or _total(kernel, made, axis))
    return _total(kernel, part, axis)


def _part(kernel: Kernel, value: Value) -> Value:
    """Exponentials, perhaps rounded, perhaps 0 where a condition says so."""
    for change in kernel.random.sample([_hidden, _rounded, _joined], kernel.random.choice([0, 0, 1, 2])):
        value = change(kernel, value)
    return value


def _hidden(kernel: Kernel, value: Value) -> Value:
    condition = compared(kernel)
    if kernel.extent(list({*condition.axes, *value.axes})) > MOST_ELEMENTS:
        return value
    sides = [value, kernel.number(0, value.element)]
    kernel.random.shuffle(sides)
    return kernel.select(condition, *sides)


def _rounded(kernel: Kernel, value: Value) -> Value:
    if value.element != "f32":
        return value
    narrow = kernel.random.choice(["f16", "bf16"])
    types = [tile_type(ELEMENTS[element], value.axes) for element in (narrow, value.element)]
    made = kernel.add(arith.TruncFOp(value.ssa, types[0]))
    made = kernel.add(arith.ExtFOp(made, types[1]))
    return kernel.made(made, [value], value.bound, value.error + EPSILON[narrow] * value.bound, inexact=True)


def _joined(kernel: Kernel, value: Value) -> Value:
    op = kernel.random.choice([arith.AddfOp, arith.SubfOp])
    return kernel.apply(op, value, value, bound=2 * value.bound, error=2 * value.error)


def _weighted(kernel: Kernel, value: Value, axis: Axis) -> Value | None:
    """A sum of exponentials times something, or a dot with it."""
    _, weight = alike(kernel, value, pick(kernel, kind="f"))
    if weight.element != value.element:
        weight = load(kernel, element=value.element)
    weight = kernel.clamped(weight, HEAVIEST)
    if kernel.extent(list({*weight.axes, *value.axes})) > MOST_ELEMENTS:
        return None
    if kernel.random.random() < 0.4 and axis.name in weight.axes and {*weight.axes, *value.axes} != {axis.name}:
        return _dot(kernel, value, weight, axis)
    sides = [value, weight]
    kernel.random.shuffle(sides)
    error = weight.bound * value.error + (value.bound + value.error) * weight.error
    made = kernel.apply(arith.MulfOp, *sides, bound=value.bound * weight.bound, error=error)
    return _total(kernel, made, axis)


def _dot(kernel: Kernel, value: Value, weight: Value, axis: Axis) -> Value:
    sides = [value, weight]
    kernel.random.shuffle(sides)
    axes = [a for a in dict.fromkeys((*sides[0].axes, *sides[1].axes)) if a != axis.name]
    start = kernel.broadcast(kernel.number(kernel.random.choice([0, 0, 3]), value.element), axes)
    made = kernel.add(DotOp(sides[0].ssa, sides[1].ssa, start.ssa, axis.name))
    error = weight.bound * value.error + (value.bound + value.error) * weight.error
    one = kernel.made(made, [value, weight], value.bound * weight.bound, error, inexact=True)
    total = _rescaled(kernel.accumulated("sum", one, max(1, axis.extent)), axis)
    return replace(total, ssa=made, axes=tuple(axes), bound=total.bound + start.bound)


def _total(kernel: Kernel, value: Value, axis: Axis) -> Value:
    return _rescaled(kernel.reduce("sum", value, axis.name), axis)


def _rescaled(total: Value, axis: Axis) -> Value:
    """A sum that may be rescaled a few times."""
    error = 12 * EPSILON[total.element] * total.bound * min(16, axis.extent)
    return replace(total, error=total.error + error)
