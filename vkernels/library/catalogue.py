"""The kernels of the library by name, with typical sizes and dtypes, for `vk check all` and `vk tune all`.

Each family's file describes its kernels in a tuple CATALOGUE; a new family is added here.
"""

from __future__ import annotations

from vkernels.language.samples import CatalogueEntry

from . import (
    activations,
    attention_blocks,
    attention_gradients,
    attention_slopes,
    convolution,
    dense,
    elements,
    experts,
    finite_elements,
    indices,
    losses,
    norms,
    reductions,
    rows,
    scans,
    segments,
    selection,
    sparse_products,
    sparse_products_gradients,
    spdnn,
    stencils,
)
from .attention import CATALOGUE as ATTENTION

CATALOGUE: tuple[CatalogueEntry, ...] = (
    *rows.CATALOGUE, *dense.CATALOGUE, *ATTENTION, *attention_blocks.CATALOGUE, *attention_gradients.CATALOGUE,
    *attention_slopes.CATALOGUE,
    *segments.CATALOGUE, *scans.CATALOGUE, *stencils.CATALOGUE, *losses.CATALOGUE, *norms.CATALOGUE,
    *activations.CATALOGUE, *elements.CATALOGUE, *reductions.CATALOGUE, *selection.CATALOGUE,
    *sparse_products.CATALOGUE, *sparse_products_gradients.CATALOGUE, *convolution.CATALOGUE,
    *finite_elements.CATALOGUE, *experts.CATALOGUE, *indices.CATALOGUE, *spdnn.CATALOGUE,
)  # fmt: skip
"""Every kernel of the library."""


def names() -> tuple[str, ...]:
    """Names of kernels and families."""
    return tuple(dict.fromkeys(name for entry in CATALOGUE for name in (entry.family, entry.name)))
