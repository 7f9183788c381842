"""The kernels of the library by name, with typical sizes and dtypes, for `vk check all` and `vk tune all`.

Each family's file describes its kernels in a tuple CATALOGUE; a new family gets its line here.
"""

from __future__ import annotations

from vkernels.language.samples import CatalogueEntry

from .activations import CATALOGUE as ACTIVATIONS
from .attention import CATALOGUE as ATTENTION
from .attention_blocks import CATALOGUE as ATTENTION_BLOCKS
from .attention_gradients import CATALOGUE as ATTENTION_GRADIENTS
from .convolution import CATALOGUE as CONVOLUTION
from .dense import CATALOGUE as DENSE
from .elements import CATALOGUE as ELEMENTS
from .experts import CATALOGUE as EXPERTS
from .finite_elements import CATALOGUE as FINITE_ELEMENTS
from .indices import CATALOGUE as INDICES
from .losses import CATALOGUE as LOSSES
from .norms import CATALOGUE as NORMS
from .reductions import CATALOGUE as REDUCTIONS
from .rows import CATALOGUE as ROWS
from .scans import CATALOGUE as SCANS
from .segments import CATALOGUE as SEGMENTS
from .selection import CATALOGUE as SELECTION
from .sparse_products import CATALOGUE as SPARSE_PRODUCTS
from .sparse_products_gradients import CATALOGUE as SPARSE_PRODUCTS_GRADIENTS
from .spdnn import CATALOGUE as SPDNN
from .stencils import CATALOGUE as STENCILS

CATALOGUE: tuple[CatalogueEntry, ...] = (
    *ROWS, *DENSE, *ATTENTION, *ATTENTION_BLOCKS, *ATTENTION_GRADIENTS, *SEGMENTS, *SCANS, *STENCILS, *LOSSES,
    *NORMS, *ACTIVATIONS, *ELEMENTS, *REDUCTIONS, *SELECTION, *SPARSE_PRODUCTS, *SPARSE_PRODUCTS_GRADIENTS,
    *CONVOLUTION, *FINITE_ELEMENTS, *EXPERTS, *INDICES, *SPDNN,
)  # fmt: skip
"""Every kernel of the library."""


def names() -> tuple[str, ...]:
    """Names of kernels and families."""
    return tuple(dict.fromkeys(name for entry in CATALOGUE for name in (entry.family, entry.name)))
