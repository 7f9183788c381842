"""Plans of the library's kernels for GPUs, chosen and by default: powers of two that map kernels, of any size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType

from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.library import rows, scans, segments, sparse_products, stencils
from vkernels.library.attention import attention_rows
from vkernels.library.dense import matmul_bias, mlp_rows
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.library.spdnn import spdnn, take_columns

KERNELS = [
    softmax_rows, layer_norm_rows, matmul_bias, spdnn, take_columns,
    rows.summarise_exponentials, rows.normalise_exponentials,
    rows.summarise_moments, rows.normalise_moments,
    scans.cumulative_sum_rows, scans.sum_of_each_segment, scans.cumulative_sum_segments,
    stencils.stencil_cross, stencils.stencil_square,
    segments.sum_segments, segments.sum_segment_rows, sparse_products.csr_times_dense, mlp_rows, attention_rows,
]  # fmt: skip
DTYPES = ["float64", "float32", "float16", "bfloat16"]


def gpu_limits() -> st.SearchStrategy[Limits]:
    """Between a part of the smallest GPU and the largest."""
    return st.builds(
        Limits,
        registers=st.just(255),
        register_bytes=st.just(4),
        shared=st.integers(32 << 10, 228 << 10),
        multiprocessors=st.integers(1, 304),
        cache=st.integers(1 << 20, 256 << 20),
        threads=st.just(1024),
        warp=st.sampled_from([32, 64]),
    )


def signature_of(kernel: Any, dtype: str) -> Signature:
    tensors = [p for p in kernel.parameters if p.kind == "tensor"]
    return Signature(
        tuple((p.name, dtype if dtype in p.dtypes else "int32") for p in tensors),
        tuple((p.name, "f64") for p in kernel.parameters if p.kind == "scalar"),
        tuple((p.name, p.default) for p in kernel.parameters if p.kind == "constant"),
    )


def is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("planner", ["chosen", "default"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@settings(max_examples=8, deadline=None)
@given(limits=gpu_limits(), data=st.data(), dtype=st.sampled_from(DTYPES))
def test_a_kernel_is_mapped_to_tiles_of_powers_of_two(kernel, planner, limits, data, dtype):
    dtype = "float32" if kernel is spdnn else dtype  # which it computes in
    lengths = st.one_of(st.sampled_from([0, 1, 2, 7, 1024, 1 << 16]), st.integers(1, 1 << 17))
    sizes = {name: data.draw(lengths, label=name) for name in kernel.sizes}
    if "L" in sizes and "K" in sizes:
        sizes |= {"N": min(sizes["N"], 1024)}
    signature = signature_of(kernel, dtype)
    module = kernel.build(signature)
    if planner == "chosen":
        plan = choose_plan(kernel_in(module), sizes, limits).plan
    else:
        plan = default_plan(kernel_in(module), sizes, limits)
    assert all(map(is_power, [*plan.tiles.values(), *plan.chunks.values()])), plan
    assert is_power(plan.warps)
    assert plan.warps * limits.warp <= limits.threads
    try:
        mapped = apply_plan(module, plan, Facts({name: n for name, n in sizes.items() if name in ("N", "S", "L")}))
    except PlanError:  # of a value that needs memory along a whole axis: a call then tells all of its sizes
        mapped = apply_plan(module, plan, Facts(sizes))
    verify_mapped(mapped)
    for op in mapped.walk():
        for result in op.results:
            if isinstance(result.type, TensorType):
                assert all(map(is_power, result.type.get_shape())), op
