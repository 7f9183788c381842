"""Which functions of a kernel a GPU may approximate, and how far off they are."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float
from xdsl.dialects import math

import vkernels.language as vk
from vkernels.ir.dialect import arith
from vkernels.ir.dialect.approximate import is_approximate
from vkernels.ir.errors import OptionError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import lower_to_ttir, print_ttir
from vkernels.ir.pipeline import gpu_pipeline, run_passes
from vkernels.ir.plan import Plan

N = "N"


def compared(x: Float[vk.Tensor, N], out: Float[vk.Tensor, N]):
    i = vk.tile("N")
    e = vk.exp(x[i].to(vk.float32))
    out[i] = vk.where(e < 1.0, 0.0, vk.exp(-e))


def stepped(x: Float[vk.Tensor, N], out: Float[vk.Tensor, N]):
    i = vk.tile("N")
    out[i] = vk.floor(vk.exp(x[i].to(vk.float32))) + vk.exp(x[i].to(vk.float32))


def carried(x: Float[vk.Tensor, N], out: Float[vk.Tensor, N], other: Float[vk.Tensor, N]):
    i = vk.tile("N")
    value = x[i].to(vk.float32)
    total = value
    for _ in vk.range(3):
        total = total + vk.exp(value)
        value = vk.exp(value) / 2.0
    out[i] = vk.exp2(total)
    other[i] = value


def whole(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    p = vk.exp(x[i, j] - vk.max(x[i, j], axis=j))
    out[i, j] = p / vk.sum(p, axis=j)


def rounded(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i] = vk.sum(vk.exp(x[i, j]).to(vk.float16), axis=j).to(vk.float32)


def rescaled(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], exact: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    peak, total, plain = x[i, 0], vk.zeros((i,), vk.float32), vk.zeros((i,), vk.float32)
    for _ in vk.range(3):
        high = vk.max(x[i, j], axis=j)
        less, other = vk.exp(peak - high), vk.exp(peak + high)
        weight = vk.exp(x[i, j] - high).to(vk.float16)
        total = total * less + vk.sum(weight, axis=j)
        plain = plain * other + vk.sum(x[i, j], axis=j)
        peak = high
    out[i] = total
    exact[i] = plain


def flagged(function, option=None, **dtypes) -> list[str]:
    """The names of functions that may be approximate, in order; `!` before those that may not."""
    kernel = vk.kernel(function) if option is None else vk.kernel(approximate=option)(function)
    found = kernel.build(kernel.signature(**dtypes)).walk()
    functions = [op for op in found if isinstance(op, math.ExpOp | math.Exp2Op | arith.DivfOp)]
    return [("" if is_approximate(op) else "!") + op.name.split(".")[1] for op in functions]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("function", "dtypes", "expected"),
    [
        (whole, {"x": "float16", "out": "float16"}, ["exp", "divf"]),
        (whole, {"x": "float16", "out": "bfloat16"}, ["exp", "divf"]),
        (whole, {"x": "float16", "out": "float32"}, ["!exp", "!divf"]),
        (whole, {"x": "float64", "out": "float64"}, ["!exp", "!divf"]),
        (rounded, {"x": "float32", "out": "float32"}, ["exp"]),
        (rescaled, {"x": "float32", "out": "float32", "exact": "float32"}, ["exp", "!exp", "exp"]),
        (compared, {"x": "float16", "out": "float16"}, ["!exp", "exp"]),
        (stepped, {"x": "float16", "out": "float16"}, ["!exp", "exp"]),
        (carried, {"x": "float16", "out": "float16", "other": "float16"}, ["exp", "exp", "divf", "exp2"]),
        (carried, {"x": "float16", "out": "float16", "other": "float32"}, ["!exp", "!exp", "!divf", "exp2"]),
        (carried, {"x": "float16", "out": "float32", "other": "float16"}, ["!exp", "!exp", "!divf", "!exp2"]),
    ],
)  # fmt: skip
def test_what_is_rounded_to_few_bits_may_be_approximate(function, dtypes, expected):
    assert flagged(function, **dtypes) == expected


@pytest.mark.unit
def test_the_author_may_say_so():
    assert flagged(whole, True, x="float32", out="float32") == ["exp", "divf"]
    assert flagged(whole, False, x="float16", out="float16") == ["!exp", "!divf"]
    with pytest.raises(OptionError, match="approximate: expected True or False, got 'yes'"):
        vk.kernel(approximate="yes")(whole)


@pytest.mark.parametrize("approximate", [True, False])
def test_on_a_gpu_by_instruction_within_the_bound_of_maths(approximate):
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    x = np.concatenate(
        [np.random.default_rng(seed).uniform(-100, 88, 500), [0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40]]
    )
    x, out = x.astype(np.float32), np.full(508, 7, np.float32)

    @vk.kernel(approximate=approximate)
    def halves(x: Float[vk.Tensor, N], out: Float[vk.Tensor, N]):
        i = vk.tile("N")
        out[i] = vk.exp(x[i]) / 2.0

    module = halves.build(halves.signature(x="float32", out="float32"))
    (mapped,) = run_passes(gpu_pipeline(Plan(tiles={"i": 64}), Facts()), module).ops
    lowered = lower_to_ttir(mapped)
    text = print_ttir(lowered.launches[0].module)
    assert ("math.exp2" in text) is approximate
    assert ("math.fma" in text) is not approximate  # which correct an exponential, and a product with a reciprocal
    divisions = [line for line in text.splitlines() if "divf" in line]
    assert divisions, "one of the number 2 alone, in each version of the loop"
    assert all(line.endswith(": (f32, f32) -> f32") for line in divisions)
    interpret_ttir(lowered, {"x": x, "out": out}, {"N": 508})
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float64)) / 2
    np.testing.assert_array_equal(np.isnan(out), np.isnan(exact))
    normal = (exact > 2.0**-126) & (exact < 2.0**127)
    units = np.abs(out[normal] - exact[normal]) / (exact[normal] * 2.0**-24)
    assert (units <= (1.25 * np.abs(x[normal]) + 4 if approximate else 4)).all()
    assert (out[exact > 2.0**129] == np.inf).all()
    assert (out[exact < 2.0**-151] == 0).all()
