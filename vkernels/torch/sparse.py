"""Products with sparse matrices, sums over segments, bags of embeddings.

Indices are checked before a product, unless `checked=False`, and not again for its gradient.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from vkernels.library import segments, sparse_products, sparse_products_gradients

from .registering import Context, define, define_differentiable, like, with_checks_refused

__all__ = ["block_matmul", "csr_matmul", "ell_matmul", "embedding_bag", "sampled_matmul", "segment_sum"]

# ── sums over segments ───────────────────────────────────────────────────────────────────────────────────────────────

_segment_sum_backward = define(
    "segment_sum_backward(Tensor grad, Tensor start, SymInt elements) -> Tensor",
    partial(segments.segment_sum_backward, checked=False),
    lambda grad, start, elements: like(grad, (elements, *grad.shape[1:])),
)


def _keep_segments(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    value, start, _ = inputs
    ctx.elements = value.shape[0]
    ctx.save_for_backward(start)


_segment_sum = define(
    "segment_sum(Tensor value, Tensor start, bool checked) -> Tensor",
    with_checks_refused(segments.segment_sum),
    lambda value, start, checked: like(value, (start.shape[0] - 1, *value.shape[1:])),
    _keep_segments,
    lambda ctx, grad: (_segment_sum_backward(grad, *ctx.saved_tensors, ctx.elements), None, None),
)

# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_csr_matmul = define_differentiable(
    "csr_matmul(Tensor start, Tensor column, Tensor value, Tensor dense, Tensor? bias, str activation, bool checked) "
    "-> Tensor",
    with_checks_refused(sparse_products.csr_matmul),
    lambda start, column, value, dense, *_: like(dense, (start.shape[0] - 1, dense.shape[1])),
    sparse_products_gradients.csr_matmul_backward,
    "value dense bias",
    without="checked",
)
_ell_matmul = define_differentiable(
    "ell_matmul(Tensor column, Tensor value, Tensor dense, Tensor? bias, str activation, bool checked) -> Tensor",
    with_checks_refused(sparse_products.ell_matmul),
    lambda column, value, dense, *_: like(dense, (value.shape[0], dense.shape[1])),
    sparse_products_gradients.ell_matmul_backward,
    "value dense bias",
    without="checked",
)
_block_matmul = define_differentiable(
    "block_matmul(Tensor start, Tensor column, Tensor block, Tensor dense, Tensor? bias, str activation, bool checked) "
    "-> Tensor",
    with_checks_refused(sparse_products.block_matmul),
    lambda start, column, block, dense, *_: like(dense, ((start.shape[0] - 1) * block.shape[1], dense.shape[1])),
    sparse_products_gradients.block_matmul_backward,
    "block dense bias",
    without="checked",
)
_sampled_matmul = define_differentiable(
    "sampled_matmul(Tensor row, Tensor column, Tensor value, Tensor a, Tensor b, bool checked) -> Tensor",
    with_checks_refused(sparse_products.sampled_matmul),
    lambda row, column, value, *_: like(value, value.shape),
    sparse_products_gradients.sampled_matmul_backward,
    "value a b",
    without="checked",
)
_embedding_bag = define_differentiable(
    "embedding_bag(Tensor table, Tensor index, Tensor start, str kind, bool checked) -> Tensor",
    with_checks_refused(segments.embedding_bag),
    lambda table, index, start, *_: like(table, (start.shape[0] - 1, table.shape[1])),
    segments.embedding_bag_backward,
    "table",
    without="checked",
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
    """A matrix in ELL form times a dense one: `vkernels.library.ell_matmul`.

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
    """A block-sparse matrix times a dense one: `vkernels.library.block_matmul`.

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
