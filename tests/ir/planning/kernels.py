"""The library's kernels as written, for plans to be chosen for; and limits of any kind."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.protocols import Signature
from vkernels.ir.dialect import KernelOp
from vkernels.ir.limits import Limits

KERNELS = {
    "softmax_rows": "rows",
    "layer_norm_rows": "rows",
    "matmul_bias": "dense",
    "mlp_rows": "dense",
    "attention_rows": "attention",
    "sum_segments": "segments",
    "csr_times_dense": "sparse_products",
    "cumulative_sum_rows": "scans",
    "normalise_moments": "rows",
    "stencil_square": "stencils",
    "spdnn": "spdnn",
    "take_columns": "spdnn",
    "mass": "finite_elements",
}
"""Kernels, and the library's module of each."""
OTHERS = {"convolve": "convolution"}
"""More of them, which not every test takes."""


@cache
def build(name: str, dtype: str = "float32", **constants: Any) -> tuple[Any, ModuleOp]:
    """A kernel of the library, and its IR for tensors of a dtype, indices of int32, and constants or their defaults."""
    kernel = getattr(import_module(f"vkernels.library.{(KERNELS | OTHERS)[name]}"), name)
    tensors = [parameter for parameter in kernel.parameters if parameter.kind == "tensor"]
    signature = Signature(
        tuple((p.name, dtype if dtype in p.dtypes else "int32") for p in tensors),
        tuple((p.name, "f64") for p in kernel.parameters if p.kind == "scalar"),
        tuple((p.name, constants.get(p.name, p.default)) for p in kernel.parameters if p.kind == "constant"),
    )
    return kernel, kernel.build(signature)


def kernel_of(module: ModuleOp) -> KernelOp:
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    return kernel


def cpus() -> st.SearchStrategy[Limits]:
    """From eight vector registers and no cache of its own."""
    return st.builds(
        Limits,
        registers=st.integers(8, 32),
        register_bytes=st.sampled_from([16, 32, 64]),
        shared=st.integers(0, 2 << 20),
        multiprocessors=st.integers(1, 128),
        cache=st.integers(0, 256 << 20),
        memory=st.integers(1 << 20, 1 << 40),
    )


def gpus() -> st.SearchStrategy[Limits]:
    """From sixteen registers a thread and no shared memory."""
    return st.builds(
        Limits,
        registers=st.integers(16, 512),
        register_bytes=st.just(4),
        shared=st.integers(0, 228 << 10),
        multiprocessors=st.integers(1, 304),
        cache=st.integers(0, 256 << 20),
        threads=st.sampled_from([32, 64, 256, 1024]),
        warp=st.sampled_from([32, 64]),
        memory=st.integers(1 << 20, 1 << 40),
        copies_ahead=st.booleans(),
    ).filter(lambda limits: limits.threads >= limits.warp)
