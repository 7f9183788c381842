"""Packed operands have their elements, and zeros, as far as chunks are read, and little more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.dialect import BufferOp
from vkernels.ir.facts import Facts
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.language.kernel import Kernel


@vk.kernel
def product(x: Float[vk.Tensor, "M K"], y: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], y[k, j])


@pytest.mark.slow
@pytest.mark.parametrize("lanes", ["i", "j"])
@pytest.mark.parametrize("chunk", [1, 3, 5, 7, 16, 33])
def test_chunks_of_any_length_read_zeros_beyond_the_rows(lanes, chunk):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    random = np.random.default_rng(seed)
    for _ in range(3):
        m, n, k = (int(size) for size in random.integers(1, 70, 3))
        x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        out = np.full((m, n), np.nan, np.float32)
        pin = vk.Pin(tiles={"i": 5, "j": 16}, chunks={"k": chunk}, packs=("x", "y"), lanes=lanes)
        Kernel(product.function, replace(product.options, plan=pin))(x, y, out)
        bound = (k + 2) * 2.0**-23 * (np.abs(x.astype(np.float64)) @ np.abs(y))
        assert (np.abs(out - x.astype(np.float64) @ y) <= bound).all()


@pytest.mark.parametrize(
    ("extent", "chunk", "length"), [(33, 33, 48), (3, 3, 16), (131, 7, 144), (512, 4, 512), (511, 3, 528)]
)
def test_rows_are_padded_to_blocks_that_hold_all_chunks(extent, chunk, length):
    module = product.build(Signature(tuple((name, "float32") for name in product.function.__annotations__), (), ()))
    plan = Plan({"i": 6, "j": 16}, {"k": chunk}, packs=("x",), lanes="j", order=("i", "j"))
    facts = Facts(sizes={"M": 60, "K": extent, "N": 16}, strides={"x": (extent, 1)})
    mapped = run_passes(cpu_pipeline(plan, facts), module)
    (buffer,) = (op for op in mapped.walk() if isinstance(op, BufferOp))
    assert list(buffer.result.type.shape) == [10, length, 6]
