"""Products with sparse matrices, sums over segments, bags of embeddings.

Indices are read before a product, unless `checked=False`, and not again for its gradient.
"""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import segments, sparse_products, sparse_products_gradients

from .capturing import refuse_checks
from .registering import Context, define, like, like_each, unchecked

__all__ = ["block_matmul", "csr_matmul", "ell_matmul", "embedding_bag", "sampled_matmul", "segment_sum"]

# ── sums over segments ───────────────────────────────────────────────────────────────────────────────────────────────

_segment_sum_backward = define(
    "segment_sum_backward(Tensor grad, Tensor start, SymInt elements) -> Tensor",
    unchecked(segments.segment_sum_backward),
    lambda grad, start, elements: like(grad, (elements, *grad.shape[1:])),
)


def _run_segment_sum(value: torch.Tensor, start: torch.Tensor, checked: bool) -> torch.Tensor:
    refuse_checks("segment_sum", value, checked)
    return segments.segment_sum(value, start, checked=checked)


def _keep_segments(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    value, start, _ = inputs
    ctx.elements = value.shape[0]
    ctx.save_for_backward(start)


_segment_sum = define(
    "segment_sum(Tensor value, Tensor start, bool checked) -> Tensor",
    _run_segment_sum,
    lambda value, start, checked: like(value, (start.shape[0] - 1, *value.shape[1:])),
    _keep_segments,
    lambda ctx, grad: (_segment_sum_backward(grad, *ctx.saved_tensors, ctx.elements), None, None),
)

# ── CSR ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_CSR = "Tensor start, Tensor column, Tensor value, Tensor dense, Tensor? bias, str activation"

_csr_matmul_backward = define(
    f"csr_matmul_backward(Tensor grad, {_CSR}) -> (Tensor, Tensor, Tensor)",
    unchecked(sparse_products_gradients.csr_matmul_backward),
    lambda grad, start, column, value, dense, bias, activation: like_each(grad, value, dense, bias),
)


def _run_csr_matmul(
    start: torch.Tensor,
    column: torch.Tensor,
    value: torch.Tensor,
    dense: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str,
    checked: bool,
) -> torch.Tensor:
    refuse_checks("csr_matmul", dense, checked)
    return sparse_products.csr_matmul(start, column, value, dense, bias, activation, checked=checked)


def _keep_and_activation(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    *tensors, ctx.activation, _ = inputs
    ctx.save_for_backward(*tensors)


def _csr_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    of_value, of_dense, of_bias = _csr_matmul_backward(grad, *ctx.saved_tensors, ctx.activation)
    return None, None, of_value, of_dense, None if ctx.saved_tensors[-1] is None else of_bias, None, None


_csr_matmul = define(
    f"csr_matmul({_CSR}, bool checked) -> Tensor",
    _run_csr_matmul,
    lambda start, column, value, dense, *_: like(dense, (start.shape[0] - 1, dense.shape[1])),
    _keep_and_activation,
    _csr_gradients,
)

# ── ELL ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ELL = "Tensor column, Tensor value, Tensor dense, Tensor? bias, str activation"

_ell_matmul_backward = define(
    f"ell_matmul_backward(Tensor grad, {_ELL}) -> (Tensor, Tensor, Tensor)",
    unchecked(sparse_products_gradients.ell_matmul_backward),
    lambda grad, column, value, dense, bias, activation: like_each(grad, value, dense, bias),
)


def _run_ell_matmul(
    column: torch.Tensor,
    value: torch.Tensor,
    dense: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str,
    checked: bool,
) -> torch.Tensor:
    refuse_checks("ell_matmul", dense, checked)
    return sparse_products.ell_matmul(column, value, dense, bias, activation, checked=checked)


def _ell_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    of_value, of_dense, of_bias = _ell_matmul_backward(grad, *ctx.saved_tensors, ctx.activation)
    return None, of_value, of_dense, None if ctx.saved_tensors[-1] is None else of_bias, None, None


_ell_matmul = define(
    f"ell_matmul({_ELL}, bool checked) -> Tensor",
    _run_ell_matmul,
    lambda column, value, dense, *_: like(dense, (value.shape[0], dense.shape[1])),
    _keep_and_activation,
    _ell_gradients,
)

# ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_BLOCKS = "Tensor start, Tensor column, Tensor block, Tensor dense, Tensor? bias, str activation"

_block_matmul_backward = define(
    f"block_matmul_backward(Tensor grad, {_BLOCKS}) -> (Tensor, Tensor, Tensor)",
    unchecked(sparse_products_gradients.block_matmul_backward),
    lambda grad, start, column, block, dense, bias, activation: like_each(grad, block, dense, bias),
)


def _run_block_matmul(
    start: torch.Tensor,
    column: torch.Tensor,
    block: torch.Tensor,
    dense: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str,
    checked: bool,
) -> torch.Tensor:
    refuse_checks("block_matmul", dense, checked)
    return sparse_products.block_matmul(start, column, block, dense, bias, activation, checked=checked)


def _block_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    of_block, of_dense, of_bias = _block_matmul_backward(grad, *ctx.saved_tensors, ctx.activation)
    return None, None, of_block, of_dense, None if ctx.saved_tensors[-1] is None else of_bias, None, None


_block_matmul = define(
    f"block_matmul({_BLOCKS}, bool checked) -> Tensor",
    _run_block_matmul,
    lambda start, column, block, dense, *_: like(dense, ((start.shape[0] - 1) * block.shape[1], dense.shape[1])),
    _keep_and_activation,
    _block_gradients,
)

# ── dense times dense, where a sparse matrix has elements ────────────────────────────────────────────────────────────

_SAMPLED = "Tensor row, Tensor column, Tensor value, Tensor a, Tensor b"

_sampled_matmul_backward = define(
    f"sampled_matmul_backward(Tensor grad, {_SAMPLED}) -> (Tensor, Tensor, Tensor)",
    unchecked(sparse_products_gradients.sampled_matmul_backward),
    lambda grad, row, column, *others: like_each(grad, *others),
)


def _run_sampled_matmul(
    row: torch.Tensor, column: torch.Tensor, value: torch.Tensor, a: torch.Tensor, b: torch.Tensor, checked: bool
) -> torch.Tensor:
    refuse_checks("sampled_matmul", value, checked)
    return sparse_products.sampled_matmul(row, column, value, a, b, checked=checked)


def _keep_tensors(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:-1])


_sampled_matmul = define(
    f"sampled_matmul({_SAMPLED}, bool checked) -> Tensor",
    _run_sampled_matmul,
    lambda row, column, value, *_: like(value, value.shape),
    _keep_tensors,
    lambda ctx, grad: (None, None, *_sampled_matmul_backward(grad, *ctx.saved_tensors), None),
)

# ── bags ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_embedding_bag_backward = define(
    "embedding_bag_backward(Tensor grad, Tensor table, Tensor index, Tensor start, str kind) -> Tensor",
    unchecked(segments.embedding_bag_backward),
    lambda grad, table, *_: like(table, table.shape),
)


def _run_embedding_bag(
    table: torch.Tensor, index: torch.Tensor, start: torch.Tensor, kind: str, checked: bool
) -> torch.Tensor:
    refuse_checks("embedding_bag", table, checked)
    return segments.embedding_bag(table, index, start, kind, checked=checked)


_embedding_bag = define(
    "embedding_bag(Tensor table, Tensor index, Tensor start, str kind, bool checked) -> Tensor",
    _run_embedding_bag,
    lambda table, index, start, *_: like(table, (start.shape[0] - 1, table.shape[1])),
    _keep_and_activation,
    lambda ctx, grad: (_embedding_bag_backward(grad, *ctx.saved_tensors, ctx.activation), None, None, None, None),
)


def segment_sum(value: torch.Tensor, start: torch.Tensor, checked: bool = True) -> torch.Tensor:
    """`out[r] = sum of value[start[r] : start[r + 1]]`: `vkernels.library.segment_sum`. Gradient: of value."""
    return _segment_sum(value, start, checked)


def csr_matmul(
    start: torch.Tensor,
    column: torch.Tensor,
    value: torch.Tensor,
    dense: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    checked: bool = True,
) -> torch.Tensor:
    """A CSR matrix times a dense one: `vkernels.library.csr_matmul`. Gradients: of value, dense and bias."""
    return _csr_matmul(start, column, value, dense, bias, activation, checked)


def ell_matmul(
    column: torch.Tensor,
    value: torch.Tensor,
    dense: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    checked: bool = True,
) -> torch.Tensor:
    """A matrix of as many elements in each row times a dense one: `vkernels.library.ell_matmul`.

    Gradients: of value, dense and bias.
    """
    return _ell_matmul(column, value, dense, bias, activation, checked)


def block_matmul(
    start: torch.Tensor,
    column: torch.Tensor,
    block: torch.Tensor,
    dense: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    checked: bool = True,
) -> torch.Tensor:
    """A matrix of which only some blocks are stored times a dense one: `vkernels.library.block_matmul`.

    Gradients: of block, dense and bias.
    """
    return _block_matmul(start, column, block, dense, bias, activation, checked)


def sampled_matmul(
    row: torch.Tensor,
    column: torch.Tensor,
    value: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    checked: bool = True,
) -> torch.Tensor:
    """`value[e] * (a[row[e]] · b[column[e]])`: `vkernels.library.sampled_matmul`. Gradients: of value, a and b."""
    return _sampled_matmul(row, column, value, a, b, checked)


def embedding_bag(
    table: torch.Tensor, index: torch.Tensor, start: torch.Tensor, kind: str = "sum", checked: bool = True
) -> torch.Tensor:
    """Sums, means or maxima of a table's rows: `vkernels.library.embedding_bag`. Gradient: of table, dense."""
    return _embedding_bag(table, index, start, kind, checked)
