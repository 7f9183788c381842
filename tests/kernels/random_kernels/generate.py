"""Random kernels from seeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects import math, scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region

from vkernels.ir.dialect import (
    BoundaryOp,
    DotOp,
    GatherOp,
    LoadOp,
    PositionOp,
    RangeOp,
    ScratchOp,
    ScratchType,
    StoreOp,
    TensorArgumentType,
    YieldOp,
    arith,
    tile_type,
)

from .memory import constant_index, gather, index_values, load, store
from .values import ELEMENTS, EPSILON, MOST_ELEMENTS, Axis, Kernel, Value

EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 8, 11, 13, 16, 17, 23, 31, 32, 33, 47, 64)
FLOATS, INTEGERS = ("f32", "f32", "f64"), ("i8", "i16", "i32", "i64")


def generate(seed: int, numbers: int | None = None) -> Kernel:
    """The kernel of a seed, with arguments for one call; `numbers`: seeds other elements of its tensors."""
    kernel = Kernel(random.Random(seed))
    if numbers is not None:
        kernel.numbers = np.random.default_rng(numbers)
    choose = kernel.random
    kinds = [True] * choose.randint(1, 2) + [False] * choose.choice([0, 1, 1, 2])
    for is_tile in kinds:
        room = MOST_ELEMENTS // max(1, kernel.extent(list(kernel.axes)))
        same = [name for name, size in kernel.sizes.items() if size <= room]
        size = choose.choice(same) if same and choose.random() < 0.2 else None
        extents = [extent for extent in EXTENTS if extent <= max(1, room)]
        kernel.axis(is_tile, size or kernel.size(choose.choice(extents)))
    for _ in range(choose.randint(1, 3)):
        kernel.live.append(load(kernel))
    for _ in range(choose.randint(1, 8)):
        statement(kernel, depth=0)
    for value in choose.sample(kernel.live, min(len(kernel.live), choose.randint(1, 3))):
        store(kernel, value)
    store(kernel, kernel.live[-1])
    anchor(kernel)
    return kernel


def anchor(kernel: Kernel) -> None:
    """Every size must be some tensor's; tensors that nothing reads have those that are not."""
    types = (argument.type for argument in kernel.op.body.block.args)
    found = {size for type_ in types if isinstance(type_, TensorArgumentType) for size in type_.shape}
    for name in [name for name in kernel.sizes if name not in found]:
        kernel.tensor("i8", [name], np.zeros(kernel.sizes[name], np.int8), "anchor")


def statement(kernel: Kernel, depth: int) -> None:
    """One more step of the program; what it computes is live afterwards."""
    steps: list[tuple[Callable[[Kernel, int], Value | None], int]] = [
        (lambda k, _: load(k), 3),
        (lambda k, _: gather(k), 2),
        (lambda k, _: unary(k, pick(k)), 3),
        (lambda k, _: binary(k, pick(k), pick(k)), 5),
        (lambda k, _: conditional(k), 2),
        (lambda k, _: reduction(k), 4),
        (lambda k, _: scan(k), 1),
        (lambda k, _: exponentials(k), 1 if depth == 0 else 0),
        (lambda k, _: dot(k), 2),
        (lambda k, _: position(k), 1),
        (scratchpad, 2 if depth == 0 else 0),
        (layers, 1 if depth == 0 else 0),
        (loop, 2 if depth < 2 else 0),
        (ragged_loop, 1 if depth == 0 else 0),
        (branch, 1 if depth < 2 else 0),
    ]
    functions, weights = zip(*steps, strict=True)
    made = kernel.random.choices(functions, weights)[0](kernel, depth)
    if made is not None:
        kernel.live.append(made)


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
    small = kernel.apply(arith.RemSIOp, value, kernel.number(17, value.element))
    return Value(kernel.add(arith.SIToFPOp(small.ssa, type_)), value.axes, element, 16.0)


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
    return Value(kernel.add(arith.FPToSIOp(value.ssa, type_)), value.axes, element)


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
    a, b = tamed(kernel, a, 1e3), tamed(kernel, b, 1e3)
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


def multipliable(kernel: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Two factors, without infinity where the other is inexact: infinity times almost zero is anything."""
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
    return kernel.reduce(kernel.random.choice(kinds), value, axis.name)


def scan(kernel: Kernel) -> Value | None:
    if not wholes(kernel):
        return None
    axis = kernel.random.choice(wholes(kernel)).name
    value = tamed(kernel, pick(kernel, axis=axis), 64)
    if value.element == "i1":
        return None
    return kernel.scan(kernel.random.choice(["sum", "max", "min"]), value, axis)


def exponentials(kernel: Kernel) -> Value | None:
    """The sum of exp(x - maximum), which can go online; sometimes the exponentials are live too."""
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
    kernel.live += kernel.random.choice([[], [made], [highest]])
    total = kernel.reduce("sum", made, axis.name)
    rescaled = 12 * EPSILON[total.element] * total.bound * min(16, axis.extent)
    return replace(total, error=total.error + rescaled)


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
    return Value(kernel.add(PositionOp(axis)), (axis,), "i64")


def scratchpad(kernel: Kernel, depth: int) -> Value | None:
    """Keep a value in scratchpad and read it at other positions."""
    whole = wholes(kernel)
    value = pick(kernel)
    axes = tuple(a for a in value.axes)
    if not axes or value.element == "i1":
        return None
    memory = kernel.add(ScratchOp(f"scratch{kernel.count}", ScratchType(axes, ELEMENTS[value.element])))
    memory.name_hint = memory.owner.label.data
    kernel.add(StoreOp(value.ssa, memory, [([(a, 1)], None) for a in axes]))
    if kernel.random.random() < 0.3:
        kernel.add(BoundaryOp())
    moved = kernel.random.choice([axis.name for axis in whole if axis.name in axes] or [""])
    return _read_scratch(kernel, memory, value, moved)


def _read_scratch(kernel: Kernel, memory: Any, value: Value, moved: str) -> Value:
    """Read scratchpad as it is, or along one whole axis at other positions: shifted, reversed, gathered."""
    plain: list[Any] = [([(a, 1)], None) for a in value.axes]
    type_ = tile_type(ELEMENTS[value.element], value.axes)
    number = value.axes.index(moved) if moved else 0
    match kernel.random.choice(["plain", "shift", "reverse", "gather"]) if moved else "plain":
        case "shift":
            plain[number] = ([(moved, 1)], constant_index(kernel, kernel.random.choice([-2, -1, 1, 3])))
            made = kernel.add(LoadOp(memory, plain, type_, guarded=[number]))
        case "reverse":
            plain[number] = ([(moved, -1)], constant_index(kernel, kernel.axes[moved].extent - 1))
            made = kernel.add(LoadOp(memory, plain, type_))
        case "gather" if kernel.axes[moved].extent > 0:
            index = index_values(kernel, (moved,), kernel.axes[moved].extent)
            plain[number] = ([], index.ssa)
            made = kernel.add(GatherOp(memory, plain, type_))
        case _:
            made = kernel.add(LoadOp(memory, plain, type_))
    return replace(value, ssa=made)


def layers(kernel: Kernel, depth: int) -> Value | None:
    """Scratchpad that a loop rewrites from what it gathers there: the layers of a network."""
    choose = kernel.random
    whole = [axis for axis in wholes(kernel) if axis.extent > 0]
    if not whole:
        return None
    axis = choose.choice(whole).name
    value = tamed(kernel, pick(kernel, axis=axis), 8)
    if value.element == "i1" or not value.is_exact:
        return None
    memory = kernel.add(ScratchOp(f"scratch{kernel.count}", ScratchType(value.axes, ELEMENTS[value.element])))
    memory.name_hint = memory.owner.label.data
    plain: list[Any] = [([(a, 1)], None) for a in value.axes]
    kernel.add(StoreOp(value.ssa, memory, plain))
    steps = choose.choice([0, 1, 2, 3])
    high = kernel.parameter(i64, steps, "steps") if choose.random() < 0.5 else constant_index(kernel, steps)
    low = constant_index(kernel, 0)
    body = Block(arg_types=[i64])
    body.args[0].name_hint = f"k{kernel.count}"
    with inside(kernel, body):
        kernel.live.append(load(kernel, element=value.element, position=(body.args[0], steps)))
        read = _read_scratch(kernel, memory, value, axis)
        carried = replace(read, special=True)
        combined = kernel.clamped(_combine(kernel, carried, 1), 8) if read.is_float else _combine(kernel, read, 1)
        if choose.random() < 0.7:
            kernel.add(BoundaryOp())
        kernel.add(StoreOp(combined.ssa, memory, plain))
        kernel.add(YieldOp())
    kernel.add(RangeOp(f"k{kernel.count}", low, high, [], Region(body)))
    made = kernel.add(LoadOp(memory, plain, tile_type(ELEMENTS[value.element], value.axes)))
    return Value(made, value.axes, value.element, 8, max(1, steps) * combined.error, value.is_float)


@contextmanager
def inside(kernel: Kernel, block: Block) -> Any:
    """Build in a body; what is computed there is not live after it."""
    outer, live = kernel.block, list(kernel.live)
    kernel.block = block
    try:
        yield
    finally:
        kernel.block, kernel.live = outer, live


def loop(kernel: Kernel, depth: int) -> Value | None:
    """A sequential loop that accumulates: `acc = acc + f(k)`, or max, min; of integers anything."""
    choose = kernel.random
    steps = choose.choice([0, 1, 2, 3, 5])
    start = tamed(kernel, pick(kernel), 64)
    if not start.axes:
        return None
    low = constant_index(kernel, choose.choice([0, 0, 1]))
    high = kernel.parameter(i64, steps, "steps") if choose.random() < 0.5 else constant_index(kernel, steps)
    body = Block(arg_types=[i64, start.ssa.type])
    body.args[0].name_hint, body.args[1].name_hint = f"k{kernel.count}", f"carried{kernel.count}"
    carried = replace(start, ssa=body.args[1])
    with inside(kernel, body):
        kernel.live.append(load(kernel, element=choose.choice([*FLOATS, *INTEGERS]), position=(body.args[0], steps)))
        for _ in range(choose.randint(0, 2)):
            statement(kernel, depth + 1)
        combined = _combine(kernel, carried, steps)
        kernel.add(YieldOp([combined.ssa]))
    op = RangeOp(f"k{kernel.count}", low, high, [start.ssa], Region(body))
    return replace(combined, ssa=kernel.add(op))


def _combine(kernel: Kernel, carried: Value, steps: int) -> Value:
    """The carried value combined with one of the same element type, no axis added; known for all steps together."""
    fits = [v for v in kernel.live if v.element == carried.element and set(v.axes) <= set(carried.axes)]
    fits = [v for v in fits if v.ssa.owner is not carried.ssa.owner]
    value = kernel.random.choice(fits[-3:]) if fits else kernel.number(1, carried.element)
    value = kernel.broadcast(tamed(kernel, value, 64), carried.axes)
    if not carried.is_float:
        ops = [arith.AndIOp, arith.OrIOp, arith.XOrIOp]
        if carried.element != "i1":
            ops += [arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MaxSIOp, arith.MinUIOp]
        return kernel.apply(kernel.random.choice(ops), carried, value)
    if kernel.random.random() < 0.3:
        op = kernel.random.choice([arith.MaximumfOp, arith.MinimumfOp])
        bound, error = max(carried.bound, value.bound), max(carried.error, value.error)
    else:
        op = kernel.random.choice([arith.AddfOp, arith.SubfOp])
        bound, error = carried.bound + steps * value.bound, carried.error + steps * value.error
    made = kernel.add(op(carried.ssa, value.ssa))
    total = kernel.made(made, [carried, value], bound, error)
    return replace(total, error=total.error * max(1, steps))


def ragged_loop(kernel: Kernel, depth: int) -> Value | None:
    """`for k in range(start[i], stop[i])`, over rows of different lengths: gathers at k, accumulates."""
    choose = kernel.random
    axis = choose.choice([axis for axis in kernel.axes.values() if axis.is_tile])
    stored = 24
    starts = kernel.numbers.integers(0, stored, axis.extent)
    stops = np.minimum(starts + kernel.numbers.integers(-2, 6, axis.extent), stored)
    bounds = []
    for array in (starts, stops):
        tensor = kernel.tensor("i64", [axis.size], array.astype(np.int64), "bounds")
        bounds.append(kernel.add(LoadOp(tensor, [([(axis.name, 1)], None)], tile_type(i64, [axis.name]))))
    start = tamed(kernel, pick(kernel), 64)
    axes = tuple(dict.fromkeys((*start.axes, axis.name)))
    start = kernel.broadcast(start, axes)
    body = Block(arg_types=[bounds[0].type, start.ssa.type])
    body.args[0].name_hint, body.args[1].name_hint = f"k{kernel.count}", f"carried{kernel.count}"
    carried = replace(start, ssa=body.args[1])
    with inside(kernel, body):
        position_ = Value(body.args[0], (axis.name,), "i64")
        kernel.live.append(gather(kernel, index=position_, dimension=stored, element=choose.choice([start.element])))
        if choose.random() < 0.5:
            kernel.live.append(binary(kernel, kernel.live[-1], pick(kernel)))
        combined = _combine(kernel, carried, 6)
        kernel.add(YieldOp([combined.ssa]))
    op = RangeOp(f"k{kernel.count}", *bounds, [start.ssa], Region(body))
    return replace(combined, ssa=kernel.add(op))


def branch(kernel: Kernel, depth: int) -> Value | None:
    """A conditional on a scalar that yields one value or another."""
    a, b = alike(kernel, pick(kernel), pick(kernel))
    a, b = kernel.together(a, b)
    condition = kernel.parameter(ELEMENTS["i1"], bool(kernel.random.getrandbits(1)), "flag")
    blocks, results = [], []
    for value in (a, b):
        block = Block()
        with inside(kernel, block):
            made = unary(kernel, value) if kernel.random.random() < 0.7 else value
            made = made if (made.element, made.axes) == (value.element, value.axes) else value
            kernel.add(scf.YieldOp(made.ssa))
        blocks.append(Region(block))
        results.append(made)
    op = scf.IfOp(condition, [a.ssa.type], *blocks)
    first, second = results
    return Value(
        kernel.add(op), a.axes, a.element, max(first.bound, second.bound), max(first.error, second.error),
        first.special or second.special,
    )  # fmt: skip
