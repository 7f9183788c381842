"""Steps of a program that compute one value of others."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import math

from vkernels.ir.dialect import DotOp, PositionOp, arith, tile_type

from .memory import load
from .values import ELEMENTS, MOST_ELEMENTS, Axis, Kernel, Value

FLOATS, INTEGERS = ("f32", "f32", "f64"), ("i8", "i16", "i32", "i64")


def pick(kernel: Kernel, *, kind: str = "", axis: str = "") -> Value:
    """A live value, rather a recent one: of floats ("f"), integers ("i") or truth values ("i1"), with an axis."""
    fits = [v for v in kernel.live if v.element.startswith(kind) and axis in (*v.axes, "")]
    fits = [v for v in fits if kind == "i1" or v.element != "i1"] or fits
    if not fits:
        made = load(kernel, element=kernel.random.choice({"f": FLOATS, "i": INTEGERS}.get(kind, FLOATS)), axis=axis)
        return made
    return kernel.random.choice(fits[-6:])


def tamed(kernel: Kernel, value: Value, limit: float = 16.0) -> Value:
    """A float that can be multiplied and summed without leaving what is exact; anything else as it is."""
    return kernel.clamped(value, limit) if value.is_float and value.bound > limit else value


def unary(kernel: Kernel, value: Value) -> Value:
    choose = kernel.random
    if value.element == "i1":
        return choose.choice([as_float, as_integer])(kernel, value)
    if not value.is_float:
        return choose.choice([as_float, as_integer, widened, flipped])(kernel, value)
    made = choose.choice([_negated, _absolute, _squared, _wave, _exponential, _root, _tanh, _logarithm, as_integer])
    return made(kernel, value)


def _negated(kernel: Kernel, value: Value) -> Value:
    return kernel.apply(arith.NegfOp, value, bound=value.bound, error=value.error)


def _absolute(kernel: Kernel, value: Value) -> Value:
    return kernel.apply(math.AbsFOp, value, bound=value.bound, error=value.error)


def _squared(kernel: Kernel, value: Value) -> Value:
    value = tamed(kernel, value)
    return kernel.apply(arith.MulfOp, value, value, bound=value.bound**2, error=2 * value.bound * value.error)


def _wave(kernel: Kernel, value: Value) -> Value:
    return kernel.maths(kernel.random.choice([math.SinOp, math.CosOp]), kernel.clamped(value, 64), 1, 1)


def _tanh(kernel: Kernel, value: Value) -> Value:
    return kernel.maths(kernel.random.choice([math.TanhOp, math.ErfOp]), value, 1, 1.2)


def _exponential(kernel: Kernel, value: Value) -> Value:
    value = kernel.clamped(value, 3)
    return kernel.maths(kernel.random.choice([math.ExpOp, math.Exp2Op]), value, 20.1, 20.1)


def _logarithm(kernel: Kernel, value: Value) -> Value:
    a = _absolute(kernel, tamed(kernel, value))
    b = kernel.apply(arith.AddfOp, a, kernel.number(1, a.element), bound=a.bound + 1, error=a.error)
    return kernel.maths(kernel.random.choice([math.LogOp, math.Log2Op, math.RsqrtOp]), b, b.bound, 1.5)


def _root(kernel: Kernel, value: Value) -> Value:
    return kernel.root(value)


def as_float(kernel: Kernel, value: Value) -> Value:
    """An integer's remainder by 17, or a truth value, as a float."""
    element = kernel.random.choice(FLOATS)
    type_ = tile_type(ELEMENTS[element], value.axes)
    if value.element == "i1":
        return Value(kernel.add(arith.UIToFPOp(value.ssa, type_)), value.axes, element, 1.0)
    signed, unsigned = (arith.RemSIOp, arith.SIToFPOp), (arith.RemUIOp, arith.UIToFPOp)
    rest, convert = kernel.random.choice([signed, signed, unsigned])
    small = kernel.apply(rest, value, kernel.number(17, value.element))
    return Value(kernel.add(convert(small.ssa, type_)), value.axes, element, 16.0)


def as_integer(kernel: Kernel, value: Value) -> Value:
    """Any value as an integer; an inexact float, which may round either way, by a comparison that cannot."""
    element = kernel.random.choice(INTEGERS)
    if value.element == "i1":
        type_ = tile_type(ELEMENTS[element], value.axes)
        op = kernel.random.choice([arith.ExtUIOp, arith.ExtSIOp])
        return Value(kernel.add(op(value.ssa, type_)), value.axes, element)
    if not value.is_float:
        return widened(kernel, value)
    if not value.is_exact or value.special:
        return _negated(kernel, value)
    value = kernel.clamped(value, 100)
    type_ = tile_type(ELEMENTS[element], value.axes)
    op = kernel.random.choice([arith.FPToSIOp, arith.FPToSIOp, arith.FPToUIOp])
    return Value(kernel.add(op(value.ssa, type_)), value.axes, element)


def widened(kernel: Kernel, value: Value) -> Value:
    """An integer in another width."""
    element = kernel.random.choice([e for e in INTEGERS if e != value.element])
    type_ = tile_type(ELEMENTS[element], value.axes)
    if int(element[1:]) < int(value.element[1:]):
        op = arith.TruncIOp
    else:
        op = kernel.random.choice([arith.ExtSIOp, arith.ExtUIOp])
    return Value(kernel.add(op(value.ssa, type_)), value.axes, element)


def flipped(kernel: Kernel, value: Value) -> Value:
    op = kernel.random.choice([arith.XOrIOp, arith.SubiOp])
    return kernel.apply(op, kernel.number(kernel.random.choice([-1, 0, 5]), value.element), value)


def alike(kernel: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Two values of one element type: where they differ, the second is one made like the first."""
    if a.element == b.element:
        return a, b
    others = [v for v in kernel.live if v.element == a.element]
    return a, kernel.random.choice(others) if others else a


def binary(kernel: Kernel, a: Value, b: Value) -> Value:
    a, b = alike(kernel, a, b)
    choose = kernel.random
    if a.element == "i1":
        return kernel.apply(choose.choice([arith.AndIOp, arith.OrIOp, arith.XOrIOp]), a, b)
    if not a.is_float:
        return _integers(kernel, a, b)
    a, b = tamed(kernel, a, 1e3), softened(kernel, tamed(kernel, b, 1e3))
    match choose.choice(["add", "sub", "mul", "max", "min", "divide", "select", "fma"]):
        case "add":
            return kernel.apply(arith.AddfOp, a, b, bound=a.bound + b.bound, error=a.error + b.error)
        case "sub":
            return kernel.apply(arith.SubfOp, a, b, bound=a.bound + b.bound, error=a.error + b.error)
        case "mul":
            a, b = multipliable(kernel, a, b)
            return kernel.apply(arith.MulfOp, a, b, bound=a.bound * b.bound, error=_product_error(a, b))
        case "max":
            op = choose.choice([arith.MaximumfOp, arith.MinimumfOp])
            return kernel.apply(op, a, b, bound=max(a.bound, b.bound), error=max(a.error, b.error))
        case "min":
            op = choose.choice([arith.MaxnumfOp, arith.MinnumfOp])
            return kernel.apply(op, a, b, bound=max(a.bound, b.bound), error=max(a.error, b.error))
        case "divide":
            return _quotient(kernel, a, b)
        case "fma":
            a, b = multipliable(kernel, a, b)
            a, b, c = kernel.together(a, b, a)
            made = kernel.add(math.FmaOp(a.ssa, b.ssa, c.ssa))
            error = _product_error(a, b) + c.error
            return kernel.made(made, [a, b, c], a.bound * b.bound + c.bound, error)
        case _:
            return kernel.select(compared(kernel), a, b)


def softened(kernel: Kernel, value: Value) -> Value:
    """A value that is finite where masks may make what it is combined with 0 or -inf."""
    return kernel.finite(value) if kernel.masked else value


def multipliable(kernel: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Two factors, without infinity where the other is inexact: infinity times almost zero is anything."""
    a, b = (softened(kernel, v) if v.is_float else v for v in (a, b))
    if a.error == 0 and b.error == 0:
        return a, b
    return tuple(kernel.clamped(v, max(16.0, v.bound)) if v.special else v for v in (a, b))  # type: ignore[return-value]


def _product_error(a: Value, b: Value) -> float:
    return a.bound * b.error + b.bound * a.error + a.error * b.error


def _quotient(kernel: Kernel, a: Value, b: Value) -> Value:
    """a / (1 + |b|)."""
    low = _absolute(kernel, b)
    low = kernel.apply(arith.AddfOp, low, kernel.number(1, b.element), bound=b.bound + 1, error=b.error)
    a, low = kernel.together(a, low)
    made = kernel.add(arith.DivfOp(a.ssa, low.ssa))
    return kernel.made(made, [a, low], a.bound, a.error + a.bound * low.error, inexact=True)


def _integers(kernel: Kernel, a: Value, b: Value) -> Value:
    choose = kernel.random
    if choose.random() < 0.3:
        divisor = kernel.number(choose.choice([1, 2, 3, 7, -5]), a.element)
        amount = kernel.number(choose.randrange(int(a.element[1:])), a.element)
        op, operand = choose.choice([
            (arith.DivSIOp, divisor), (arith.RemSIOp, divisor), (arith.FloorDivSIOp, divisor),
            (arith.DivUIOp, divisor), (arith.RemUIOp, divisor),
            (arith.ShLIOp, amount), (arith.ShRSIOp, amount), (arith.ShRUIOp, amount),
        ])  # fmt: skip
        return kernel.apply(op, a, operand)
    return kernel.apply(choose.choice([
        arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
        arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp,
    ]), a, b)  # fmt: skip


def compared(kernel: Kernel) -> Value:
    """A truth value that rounding cannot change."""
    truths = [v for v in kernel.live if v.element == "i1"]
    if truths and kernel.random.random() < 0.4:
        return kernel.random.choice(truths)
    a, b = alike(kernel, *(pick(kernel) for _ in range(2)))
    if a.element == "i1":
        return a
    if not (a.is_exact and b.is_exact):
        a = b = load(kernel, element=kernel.random.choice(INTEGERS))
        b = kernel.number(0, a.element)
    a, b = kernel.together(a, b)
    if a.is_float:
        predicate = kernel.random.choice(arith.CmpfOp.PREDICATES)
        return Value(kernel.add(arith.CmpfOp(a.ssa, b.ssa, predicate)), a.axes, "i1")
    return Value(kernel.add(arith.CmpiOp(a.ssa, b.ssa, kernel.random.choice(arith.CmpiOp.PREDICATES))), a.axes, "i1")


def conditional(kernel: Kernel) -> Value:
    if kernel.random.random() < 0.4:
        return compared(kernel)
    a, b = alike(kernel, pick(kernel), pick(kernel))
    return kernel.select(compared(kernel), a, b)


def wholes(kernel: Kernel) -> list[Axis]:
    return [axis for axis in kernel.axes.values() if not axis.is_tile]


def reduction(kernel: Kernel) -> Value | None:
    if not wholes(kernel):
        return None
    axis = kernel.random.choice(wholes(kernel))
    value = tamed(kernel, pick(kernel, axis=axis.name), 64)
    if value.element == "i1":
        value = as_integer(kernel, value)
    kinds = ["sum", "sum", "max", "min"]
    if not value.is_float or max(1.0, value.bound) ** axis.extent < 1e4:
        kinds.append("product")
    kinds += [] if value.is_float else ["maxui", "minui"]
    return kernel.reduce(kernel.random.choice(kinds), value, axis.name)


def scan(kernel: Kernel) -> Value | None:
    if not wholes(kernel):
        return None
    axis = kernel.random.choice(wholes(kernel)).name
    value = tamed(kernel, pick(kernel, axis=axis), 64)
    if value.element == "i1":
        return None
    kinds = ["sum", "max", "min", *([] if value.is_float else ["maxui", "minui"])]
    return kernel.scan(kernel.random.choice(kinds), value, axis)


def own_scan(kernel: Kernel) -> Value | None:
    """A scan by one of two functions of one's own, neither of which is commutative."""
    if not wholes(kernel):
        return None
    axis = kernel.random.choice(wholes(kernel)).name
    marks = [v for v in kernel.live if axis in v.axes and not v.is_float and v.element != "i1"]
    mark = kernel.random.choice(marks) if marks else load(kernel, element="i32", axis=axis)
    if kernel.random.random() < 0.4:
        return kernel.last_that_counts(mark, axis)
    value = tamed(kernel, pick(kernel, axis=axis), 64)
    return None if value.element == "i1" else kernel.restarting_sums(*kernel.together(value, mark), axis)


def dot(kernel: Kernel) -> Value | None:
    if not wholes(kernel):
        return None
    axis = kernel.random.choice(wholes(kernel)).name
    left = tamed(kernel, pick(kernel, axis=axis), 16)
    if left.element not in ("f32", "f64", "i32"):
        left = load(kernel, element=kernel.random.choice(["f32", "f64", "i32"]), axis=axis)
    same = [v for v in kernel.live if v.element == left.element and axis in v.axes]
    right = kernel.random.choice(same) if same and kernel.random.random() < 0.5 else None
    right = tamed(kernel, right or load(kernel, element=left.element, axis=axis), 16)
    left, right = multipliable(kernel, left, right)
    axes = [a for a in dict.fromkeys((*left.axes, *right.axes)) if a != axis]
    if not axes or kernel.extent([*axes, axis]) > 4 * MOST_ELEMENTS:
        return None
    start = kernel.broadcast(kernel.number(kernel.random.choice([0, 0, 3]), left.element), axes)
    precision = "tf32" if left.element == "f32" and left.is_exact and right.is_exact else "ieee"
    if kernel.random.random() < 0.7:
        precision = "ieee"
    made = kernel.add(DotOp(left.ssa, right.ssa, start.ssa, axis, precision))
    terms = max(1, kernel.axes[axis].extent)
    if not left.is_float:
        return Value(made, tuple(axes), left.element)
    first = kernel.made(made, [left, right], left.bound * right.bound, _product_error(left, right))
    total = kernel.accumulated("sum", first, terms)
    return replace(total, ssa=made, axes=tuple(axes), bound=total.bound + start.bound)


def position(kernel: Kernel) -> Value:
    axis = kernel.random.choice(list(kernel.axes))
    kernel.masked.add(axis)
    return Value(kernel.add(PositionOp(axis)), (axis,), "i64")
