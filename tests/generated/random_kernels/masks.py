"""Masks on positions, written in random ways, and reductions of what they let through."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import math

from vkernels.ir.dialect import DotOp, PositionOp, arith, tile_type

from .memory import index_values, load
from .steps import pick, softened, tamed, wholes
from .values import ELEMENTS, Kernel, Value

_COMPARED = ("slt", "sle", "sgt", "sge", "slt", "sle", "sgt", "sge", "eq", "ne", "ult")


def masked(kernel: Kernel) -> Value | None:
    """A reduction whose terms are neutral, or weights 0, where a mask is false."""
    if not wholes(kernel):
        return None
    axis, choose = kernel.random.choice(wholes(kernel)).name, kernel.random
    kernel.masked.add(axis)
    mask = condition(kernel, axis, depth=2)
    value = tamed(kernel, pick(kernel, kind="f", axis=axis), 16)
    if not value.is_float or axis not in value.axes or value.error > 0.1:
        return None
    match choose.choice(["sum", "factor", "max", "min", "any", "weights", "weights"]):
        case "sum":
            return kernel.reduce("sum", _chosen(kernel, mask, value, 0), axis)
        case "factor":
            return _factor(kernel, mask, value, axis)
        case "max":
            return kernel.reduce("max", _chosen(kernel, mask, value, float("-inf")), axis)
        case "min":
            return kernel.reduce("min", _chosen(kernel, mask, value, float("inf")), axis)
        case "any":
            wide = tile_type(ELEMENTS["i32"], mask.axes)
            kind = choose.choice(["max", "min", "sum"])
            return kernel.reduce(kind, Value(kernel.add(arith.ExtUIOp(mask.ssa, wide)), mask.axes, "i32"), axis)
    return _weighted(kernel, _chosen(kernel, mask, value, float("-inf")), axis)


def condition(kernel: Kernel, axis: str, depth: int) -> Value:
    """A truth value that depends on the position along an axis."""
    choose = kernel.random
    kind = choose.choice(["compare", "compare", "and", "or", "xor", "not", "select"]) if depth else "compare"
    if kind == "compare":
        return _compared(kernel, axis)
    one = condition(kernel, axis, depth - 1)
    if kind == "not":
        return kernel.apply(arith.XOrIOp, one, Value(kernel.number(1, "i1").ssa, (), "i1"))
    other = condition(kernel, axis, depth - 1)
    if kind == "select":
        return kernel.select(_compared(kernel, choose.choice(list(kernel.axes))), one, other)
    return kernel.apply({"and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp}[kind], one, other)


def _compared(kernel: Kernel, axis: str) -> Value:
    left = _term(kernel, axis)
    if kernel.random.random() < 0.3:
        left = kernel.apply(kernel.random.choice([arith.AddiOp, arith.SubiOp]), left, _other(kernel))
    sides = [left, _other(kernel)]
    if kernel.random.random() < 0.2:
        element = kernel.random.choice(["i32", "i32", "i8"])
        sides = [_narrow(kernel, side, element) for side in sides]
    kernel.random.shuffle(sides)
    one, other = kernel.together(*sides)
    return Value(kernel.add(arith.CmpiOp(one.ssa, other.ssa, kernel.random.choice(_COMPARED))), one.axes, "i1")


def _term(kernel: Kernel, axis: str) -> Value:
    """The position along an axis times or divided by a number."""
    place, choose = Value(kernel.add(PositionOp(axis)), (axis,), "i64"), kernel.random
    factor = choose.choice([1, 1, 1, 2, 3, -1])
    made = place if factor == 1 else kernel.apply(arith.MuliOp, place, kernel.number(factor, "i64"))
    if choose.random() < 0.2:
        made = kernel.apply(arith.FloorDivSIOp, made, kernel.number(choose.choice([1, 2, 5]), "i64"))
    return made


def _other(kernel: Kernel) -> Value:
    """A number, another position, a loaded integer, or the smaller or larger of two of these."""
    choose = kernel.random
    match choose.choice(["number", "position", "position", "loaded", "two"]):
        case "number":
            return kernel.number(choose.randint(-3, 20), "i64")
        case "position":
            return _term(kernel, choose.choice(list(kernel.axes)))
        case "loaded":
            found = index_values(kernel, (choose.choice(list(kernel.axes)),), 20)
            if found.element == "i64":
                return found
            wide = tile_type(ELEMENTS["i64"], found.axes)
            return Value(kernel.add(arith.ExtSIOp(found.ssa, wide)), found.axes, "i64")
    kind = choose.choice([arith.MinSIOp, arith.MaxSIOp])
    return kernel.apply(
        kind, _term(kernel, choose.choice(list(kernel.axes))), kernel.number(choose.randint(0, 9), "i64")
    )


def _narrow(kernel: Kernel, value: Value, element: str) -> Value:
    """A 64-bit integer in fewer bits, where it may wrap."""
    if not value.axes:
        return Value(kernel.add(arith.TruncIOp(value.ssa, ELEMENTS[element])), (), element)
    return Value(kernel.add(arith.TruncIOp(value.ssa, tile_type(ELEMENTS[element], value.axes))), value.axes, element)


def _chosen(kernel: Kernel, mask: Value, value: Value, otherwise: float) -> Value:
    number = replace(kernel.number(otherwise, value.element), bound=0.0, special=otherwise != 0)
    return kernel.select(mask, value, number)


def _factor(kernel: Kernel, mask: Value, value: Value, axis: str) -> Value:
    """A sum of products with the mask as a number."""
    type_ = tile_type(ELEMENTS[value.element], mask.axes)
    number = Value(kernel.add(arith.UIToFPOp(mask.ssa, type_)), mask.axes, value.element, 1.0)
    one = softened(kernel, value)
    made = kernel.apply(arith.MulfOp, one, number, bound=one.bound, error=one.error)
    return kernel.reduce("sum", made, axis)


def _weighted(kernel: Kernel, value: Value, axis: str) -> Value:
    """The sum of exponentials relative to the maximum, or a dot with them."""
    highest = kernel.reduce("max", value, axis)
    below = kernel.apply(arith.SubfOp, value, highest, bound=2 * value.bound, error=2 * value.error)
    made = kernel.maths(kernel.random.choice([math.ExpOp, math.Exp2Op]), below, 1.3, 1.3)
    kernel.live += kernel.random.choice([[], [made], [highest]])
    if kernel.random.random() < 0.5:
        kernel.online.add(axis)
        total = kernel.reduce("sum", made, axis)
        return replace(total, error=total.error + 1e-4 * max(1.0, total.bound))
    other = softened(kernel, tamed(kernel, load(kernel, element=made.element, axis=axis), 16))
    axes = [name for name in dict.fromkeys((*made.axes, *other.axes)) if name != axis]
    if not axes or kernel.extent([*axes, axis]) > 4000:
        return made
    start = kernel.broadcast(kernel.number(0, made.element), axes)
    dot = kernel.add(DotOp(made.ssa, other.ssa, start.ssa, axis, "ieee"))
    terms = max(1, kernel.axes[axis].extent)
    bound, error = 2 * other.bound * terms, (made.error * other.bound + 2 * other.error) * terms
    return Value(dot, tuple(axes), made.element, bound, error + 1e-5 * max(1.0, bound), special=True)
