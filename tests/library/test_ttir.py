"""The library's kernels, planned for GPUs by choice and by default, are right in the interpreter of TTIR."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.compiler.specialise import kernel_in
from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan

from ..ir.interpret.ttir.library import Call
from . import calls
from .reference import fresh_seed

GPU = Limits(registers=255, register_bytes=4, shared=100 << 10, multiprocessors=8, cache=4 << 20, threads=1024, warp=32)
FLOATS = [np.float64, np.float32, np.float16, np.uint16]
"""uint16 holds bf16."""
LENGTHS = [3, 0, 33, 64, 1, 7]


def cases(dtype: type, seed: int) -> dict[str, Call]:
    return {
        "cumulative_sum": calls.cumulative_sum(5, 100, dtype, seed),
        "cross": calls.stencil((2, 9, 21), False, dtype, seed),
        "square": calls.stencil((2, 9, 21), True, dtype, seed),
        "segment_sum": calls.segments(LENGTHS, None, dtype, seed),
        "segment_sum of rows": calls.segments(LENGTHS, 19, dtype, seed),
        "csr_matmul": calls.sparse_product(LENGTHS, 11, 19, dtype, seed),
        "mlp": calls.mlp(20, 18, 35, 21, dtype, seed),
        "attention": calls.attention((2, 2, 1), 20, 37, 17, 9, dtype, seed, False),
        "causal attention": calls.attention((1, 2, 2), 18, 37, 20, 16, dtype, seed, True),
    }


def small_attention(dtype: type, seed: int) -> dict[str, Call]:
    """Plans by default go through attention element by element."""
    return {
        "attention": calls.attention((1, 2, 1), 6, 9, 5, 4, dtype, seed, False),
        "causal attention": calls.attention((1, 1, 2), 6, 9, 5, 4, dtype, seed, True),
    }


def check(call: Call, planner: str, seed: int, exact: bool | None = None) -> None:
    module = call.kernel.build(call.signature)
    if planner == "default":
        plan = default_plan(kernel_in(module), call.sizes, GPU)
    else:
        plan = choose_plan(kernel_in(module), call.sizes, GPU).plan
    lowered = call.lowered(plan, seed % 2 == 0 if exact is None else exact)
    assert not call.difference(call.run(lowered, order=seed)), plan


@pytest.mark.sample(2)
@pytest.mark.parametrize("planner", ["chosen", "default"])
@pytest.mark.parametrize("name", cases(np.float32, 0))
def test_a_kernel_is_right_in_ttir(name, planner):
    seed = fresh_seed()
    for dtype in FLOATS:
        found = cases(dtype, seed) | (small_attention(dtype, seed) if planner == "default" else {})
        check(found[name], planner, seed)


@pytest.mark.parametrize("planner", ["chosen", "default"])
def test_long_cumulative_sums_are_right_in_ttir(planner):
    seed = fresh_seed()
    check(calls.segment_totals(2, 5, 300, seed), planner, seed)
    check(calls.cumulative_sum_in_segments(2, 5, 300, seed), planner, seed)
    check(calls.cumulative_sum(1, 9000, np.float32, seed), planner, seed)


@pytest.mark.parametrize("hidden", [100, 3000])
def test_a_wide_mlp_keeps_its_hidden_values_where_they_fit(hidden):
    """In shared memory, and in swap space."""
    seed = fresh_seed()
    check(calls.mlp(16, 20, hidden, 300, np.float32, seed), "chosen", seed, exact=True)
    check(calls.mlp(16, 20, hidden, 300, np.float16, seed), "chosen", seed, exact=True)


def test_the_same_elements_are_dropped_in_ttir_as_on_a_cpu():
    """The seed's own arithmetic is the launch's, not the host's."""
    seed = fresh_seed()
    check(calls.dropout(9, 100, np.float32, seed), "chosen", seed)
