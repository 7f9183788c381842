"""Attention by blocks in the form of calls on GPUs, whose weights stay in registers: right as lowered for a GPU."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest

from vkernels.compiler.protocols import Signature
from vkernels.ir.dialect import MappedOp, TileOp, WholeOp
from vkernels.ir.facts import Facts
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir.lower_to_ttir import lower_to_ttir
from vkernels.ir.pipeline import gpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.language.kernel import Kernel
from vkernels.library.attention_blocks import Band, attention_blocks, table_of_blocks
from vkernels.library.attention_gradients import attention_key_gradients, attention_query_gradient

ROWS, KEYS, DEPTH, WIDTH, SIZE = 40, 150, 16, 32, 32
WIDTHS = {"m": SIZE, "n": SIZE, "a": 64, "d": DEPTH, "e": WIDTH}
BANDS = {"causal": Band(ahead=0), "window": Band(20, 3), "full": Band()}


def run(kernel, tensors, band, windowed, **constants) -> None:
    """Run a kernel's GPU form on the interpreter of Triton's IR."""
    dtypes = {name: str(value.dtype) for name, value in tensors.items()}
    scalars = {"scale": DEPTH**-0.5, "back": band.back, "ahead": band.ahead}
    constants |= {"windowed": windowed, "size": SIZE, "kept": True}
    kinds = (("scale", "f64"), ("back", "i64"), ("ahead", "i64"))
    module = kernel.build(Signature(tuple(dtypes.items()), kinds, tuple(constants.items())))
    axes = [op.axis.data for op in module.walk() if op.name in ("vk.tile", "vk.whole")]
    plan = Plan(
        {axis: 1 for axis in axes if axis in "bgrp"}, {axis: WIDTHS[axis] for axis in axes if axis in WIDTHS}, warps=4
    )
    (mapped,) = (op for op in run_passes(gpu_pipeline(plan, Facts()), module).ops if isinstance(op, MappedOp))
    places = {"B": 1, "G": 1, "R": 1, "P": tensors["block"].shape[0]}
    named = {"D": DEPTH, "E": WIDTH, "M": tensors["q"].size // DEPTH, "N": tensors["k"].size // DEPTH}
    sizes = {**places, **named}
    interpret_ttir(lower_to_ttir(mapped), {**tensors, **scalars}, sizes)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "rows", "keys", "masks"), [*((name, ROWS, KEYS, True) for name in BANDS), ("full", 64, 128, False)]
)
def test_results_and_gradients_are_right(name: str, rows: int, keys: int, masks: bool) -> None:
    band = BANDS[name]
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    random = np.random.default_rng(seed)
    q, k, v, grad = (
        random.standard_normal(shape).astype(np.float16)
        for shape in ((rows, DEPTH), (keys, DEPTH), (keys, WIDTH), (rows, WIDTH))
    )
    place = np.arange(rows)[:, None] + keys - rows - np.arange(keys)[None, :]
    seen = (place <= band.back) & (-place <= band.ahead)
    wide = [each.astype(np.float64) for each in (q, k, v, grad)]
    score = np.where(seen, wide[0] @ wide[1].T * DEPTH**-0.5, -np.inf)
    p = np.exp(score - score.max(1, keepdims=True))
    sums = np.log(p.sum(1)) + score.max(1)
    p /= p.sum(1, keepdims=True)
    exact = p @ wide[2]
    slope = p * (wide[3] @ wide[2].T - (wide[3] * exact).sum(1, keepdims=True))
    windowed = band.back < keys

    def blocks(of_keys: bool) -> np.ndarray:
        start, other = np.array([0, rows]), np.array([0, keys])
        return table_of_blocks(*((other, start, band.turned) if of_keys else (start, other, band)), SIZE)

    turned = {"q": q.T[None, None, None], "k": k[None, None], "v": v[None, None]}
    out, normaliser = poisoned((1, 1, 1, WIDTH, rows), np.float16), poisoned((1, 1, 1, rows), np.float32)
    run(attention_blocks, {**turned, "block": blocks(False), "out": out, "normaliser": normaliser}, band, windowed)
    np.testing.assert_allclose(out[0, 0, 0].T, exact, atol=5e-3)
    np.testing.assert_allclose(normaliser[0, 0, 0], sums, atol=2e-3)

    coming = {"grad": grad.T[None, None, None], "out": out, "normaliser": sums[None, None, None].astype(np.float32)}
    mean, dq = poisoned((1, 1, 1, rows), np.float32), poisoned((1, 1, 1, DEPTH, rows), np.float16)
    given = {"grad": coming["grad"], **turned, "out": out, "normaliser": coming["normaliser"]}
    given |= {"block": blocks(False), "mean": mean, "dq": dq}
    run(attention_query_gradient, given, band, windowed, masks=masks)
    np.testing.assert_allclose(dq[0, 0, 0].T, slope @ wide[1] * DEPTH**-0.5, atol=2e-2)

    dk, dv = poisoned((1, 1, DEPTH, keys), np.float16), poisoned((1, 1, WIDTH, keys), np.float16)
    of_keys = {
        "grad": grad[None, None, None], "q": q[None, None, None], "k": k.T[None, None], "v": v.T[None, None],
        "normaliser": coming["normaliser"], "mean": mean, "block": blocks(True), "dk": dk, "dv": dv,
    }  # fmt: skip
    band_of_keys = band.turned
    run(attention_key_gradients, of_keys, band_of_keys, band_of_keys.back < rows, masks=masks)
    np.testing.assert_allclose(dv[0, 0].T, p.T @ wide[3], atol=2e-2)
    np.testing.assert_allclose(dk[0, 0].T, slope.T @ wide[0] * DEPTH**-0.5, atol=2e-2)


@pytest.mark.parametrize("name", BANDS)
def test_the_longest_blocks_of_every_head_start_first(name: str) -> None:
    """A long block that starts last keeps one multiprocessor busy while the others have nothing left to do."""
    band = BANDS[name]
    start = np.cumsum([0, 300, 70, 1, 200])
    table = table_of_blocks(start, start, band, SIZE)
    lengths = table[:, 3] - table[:, 2]
    assert (np.diff(lengths) <= 0).all()
    assert sorted(table[:, 0]) == [first for s, end in pairwise(start) for first in range(s, end, SIZE)]
    for kernel in (attention_blocks, attention_query_gradient, attention_key_gradients):
        tiles = axes_of(kernel)
        assert tiles.index("p") < tiles.index("g")


def axes_of(kernel: Kernel) -> list[str]:
    """The axes of a kernel's GPU form as declared: of the tiles, programs along the first differ last."""
    given = {"block": "int64", "normaliser": "float32", "mean": "float32", "scale": float, "back": int, "ahead": int}
    names = inspect.signature(kernel.function).parameters
    every = {"windowed": False, "size": SIZE, "kept": True, "keys": SIZE}
    constants = {name: value for name, value in every.items() if name in names}
    dtypes = {name: given.get(name, "float16") for name in names if name not in constants}
    module = kernel.build(kernel.signature(**dtypes, **constants))
    return [op.axis.data for op in module.walk() if isinstance(op, TileOp | WholeOp)]


def poisoned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return np.full(shape, np.nan, dtype)
