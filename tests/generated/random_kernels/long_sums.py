"""Sums along axes so long that rounding shows, of numbers that are not exact: within the bound that is promised."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32

from vkernels.ir.dialect import (
    KernelOp,
    LoadOp,
    SizeOp,
    StoreOp,
    SumOp,
    TensorArgumentType,
    TileOp,
    WholeOp,
    arith,
    tile_type,
)
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.transforms.apply_plan import apply_plan

from .native import run_native

UNIT = 2.0**-24
"""Half of the distance between 1 and the next float32."""

Array = np.ndarray[Any, Any]


def allowed(terms: int, magnitude: Array) -> Array:
    """How far a float32 sum of so many terms may be off; `magnitude`: the sum of their absolute values."""
    return (16 + 4 * math.log2(max(2, terms))) * UNIT * magnitude


def numbers(choose: random.Random, shape: tuple[int, int]) -> Array:
    """Constants, of one sign, of alternating signs or of random ones; or constants with some other numbers between."""
    value = choose.choice([0.1, 0.3, 1e-3, 7.7])
    made = np.full(shape, value, np.float32)
    rng = np.random.default_rng(choose.getrandbits(32))
    match choose.choice(["constant", "constant", "alternating", "random signs", "with others"]):
        case "alternating":
            made[:, 1::2] *= -1
        case "random signs":
            made *= rng.choice([-1.0, 1.0], shape).astype(np.float32)
        case "with others":
            made[:, rng.integers(0, shape[1], 99)] = rng.normal(size=99).astype(np.float32) * 1e3
    return made


def kernel(is_squared: bool) -> ModuleOp:
    """out[i] = sum of x[i, j], or of its squares, along j."""
    matrix, vector = TensorArgumentType(["M", "N"], f32), TensorArgumentType(["M"], f32)
    op = KernelOp("long_sum", [("x", matrix), ("out", vector)])
    x, out = op.body.block.args
    rows, columns = SizeOp("M"), SizeOp("N")
    load = LoadOp(x, [([("i", 1)], None), ([("j", 1)], None)], tile_type(f32, ("i", "j")))
    squares = [arith.MulfOp(load.result, load.result)] if is_squared else []
    total = SumOp((squares[0] if is_squared else load).results[0], "j")
    store = StoreOp(total.results[0], out, [([("i", 1)], None)])
    axes = [TileOp("i", rows.results[0]), WholeOp("j", columns.results[0])]
    op.body.block.add_ops([rows, columns, *axes, load, *squares, total, store])
    for made, name in ((load, "row"), (total, "total")):
        made.results[0].name_hint = name
    module = ModuleOp([op])
    module.verify()
    return module


def check_long_sum(seed: int, way: str) -> None:
    """Raise `AssertionError` where a seed's sum, run in one way (`written`, `native`, `ttir`), is further off than it
    may be."""
    choose = random.Random(seed)
    longest = 1 << (16 if way == "ttir" else 20)
    shape = (choose.randint(1, 3), choose.choice([1 << 16, longest, choose.randint(1 << 16, longest)]))
    is_squared = choose.random() < 0.3
    x, module = numbers(choose, shape), kernel(is_squared)
    sizes = dict(zip("MN", shape, strict=True))
    out = np.full(shape[0], np.nan, np.float32)
    plan = Plan(
        {"i": choose.choice([1, 1, 2])}, {"j": choose.choice([128] if way == "ttir" else [1, 4, 8, 16, 64, 128])},
        splits={"j": choose.choice([2, 7, 16])} if choose.random() < 0.4 else {},
        lanes=choose.choice(["j", "j", "i", None]),
    )  # fmt: skip
    arguments = {"x": x, "out": out}
    if way == "written":
        interpret(module, arguments)
    else:
        mapped = apply_plan(module, plan, Facts(sizes, distinct=True))
        if way == "native":
            run_native(mapped, arguments, sizes)
        else:
            from .compare import lowered_to_ttir

            interpret_ttir(lowered_to_ttir(mapped), arguments, sizes)
    wide = x.astype(np.float64)
    terms = (wide * wide if is_squared else wide).tolist()
    exact = np.array([math.fsum(row) for row in terms])
    bound = allowed(shape[1], np.array([math.fsum(map(abs, row)) for row in terms]))
    off = np.abs(out.astype(np.float64) - exact)
    assert (off <= bound).all(), f"seed {seed}: {way}, {shape}, {plan}: off by {off}, allowed {bound}, exact {exact}"
