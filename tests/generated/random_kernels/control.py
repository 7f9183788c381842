"""Loops and conditionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region

from vkernels.ir.dialect import LoadOp, RangeOp, YieldOp, arith, tile_type

from .memory import constant_index, gather, load
from .steps import FLOATS, INTEGERS, alike, binary, pick, tamed, unary
from .values import ELEMENTS, Kernel, Value

Statement = Callable[[Kernel, int], None]
"""Adds one more step to a body that lies so deep."""


@contextmanager
def inside(kernel: Kernel, block: Block) -> Any:
    """Build in a body; what is computed there is not live after it."""
    outer, live = kernel.block, list(kernel.live)
    kernel.block = block
    try:
        yield
    finally:
        kernel.block, kernel.live = outer, live


def loop(kernel: Kernel, depth: int, statement: Statement) -> Value | None:
    """A sequential loop that accumulates one or two values: `acc = acc + f(k)`, or max, min; of integers anything."""
    choose = kernel.random
    steps = choose.choice([0, 1, 2, 3, 5])
    starts = [tamed(kernel, pick(kernel), 64) for _ in range(choose.choice([1, 1, 2]))]
    starts = [start for start in starts if start.axes]
    if not starts:
        return None
    low = constant_index(kernel, choose.choice([0, 0, 1]))
    high = kernel.parameter(i64, steps, "steps") if choose.random() < 0.5 else constant_index(kernel, steps)
    body = Block(arg_types=[i64, *(start.ssa.type for start in starts)])
    body.args[0].name_hint = f"k{kernel.count}"
    for number, argument in enumerate(body.args[1:]):
        argument.name_hint = f"carried{kernel.count}_{number}"
    carried = [replace(start, ssa=argument) for start, argument in zip(starts, body.args[1:], strict=True)]
    with inside(kernel, body):
        kernel.live.append(load(kernel, element=choose.choice([*FLOATS, *INTEGERS]), position=(body.args[0], steps)))
        for _ in range(choose.randint(0, 2)):
            statement(kernel, depth + 1)
        made = _swapped(kernel, [combined(kernel, value, steps) for value in carried])
        kernel.add(YieldOp([value.ssa for value in made]))
    op = RangeOp(f"k{kernel.count}", low, high, [start.ssa for start in starts], Region(body))
    kernel.add(op)
    results = [replace(value, ssa=result) for value, result in zip(made, op.results, strict=True)]
    kernel.live += results[:-1]
    return results[-1]


def _swapped(kernel: Kernel, values: list[Value]) -> list[Value]:
    """Now and then two values that are alike, the other way round: then of each is known what is of both."""
    if len(values) < 2 or kernel.random.random() < 0.6:
        return values
    a, b = values
    if (a.element, a.axes) != (b.element, b.axes):
        return values
    bound, error = max(a.bound, b.bound), max(a.error, b.error)
    both = replace(a, bound=bound, error=error, special=a.special or b.special)
    return [replace(both, ssa=b.ssa), replace(both, ssa=a.ssa)]


def combined(kernel: Kernel, carried: Value, steps: int) -> Value:
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
    tiles = [axis for axis in kernel.axes.values() if axis.is_tile]
    if not tiles:
        return None
    axis = choose.choice(tiles)
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
        position = Value(body.args[0], (axis.name,), "i64")
        kernel.live.append(gather(kernel, index=position, dimension=stored, element=start.element))
        if choose.random() < 0.5:
            kernel.live.append(binary(kernel, kernel.live[-1], pick(kernel)))
        made = combined(kernel, carried, 6)
        kernel.add(YieldOp([made.ssa]))
    op = RangeOp(f"k{kernel.count}", *bounds, [start.ssa], Region(body))
    return replace(made, ssa=kernel.add(op))


def branch(kernel: Kernel, depth: int, statement: Statement) -> Value | None:
    """A conditional on a scalar that yields one value or another."""
    a, b = alike(kernel, pick(kernel), pick(kernel))
    a, b = kernel.together(a, b)
    condition = kernel.parameter(ELEMENTS["i1"], bool(kernel.random.getrandbits(1)), "flag")
    blocks, results = [], []
    for value in (a, b):
        block = Block()
        with inside(kernel, block):
            for _ in range(kernel.random.choice([0, 0, 1, 2])):
                statement(kernel, depth + 1)
            made = _like(kernel, value, [unary(kernel, value), *kernel.live[-2:]])
            kernel.add(scf.YieldOp(made.ssa))
        blocks.append(Region(block))
        results.append(made)
    op = scf.IfOp(condition, [a.ssa.type], *blocks)
    first, second = results
    return Value(
        kernel.add(op), a.axes, a.element, max(first.bound, second.bound), max(first.error, second.error),
        first.special or second.special,
    )  # fmt: skip


def _like(kernel: Kernel, value: Value, among: Sequence[Value]) -> Value:
    """A value of the same element type and axes: one of some, or itself."""
    fits = [other for other in among if (other.element, other.axes) == (value.element, value.axes)]
    return kernel.random.choice([*fits, value])
