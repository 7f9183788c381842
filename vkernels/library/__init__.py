"""Portable kernels, one family a file. They take torch tensors or NumPy arrays and return the same."""

from .activations import *
from .attention import *
from .convolution import *
from .dense import *
from .elements import *
from .experts import *
from .finite_elements import *
from .losses import *
from .norms import *
from .reductions import *
from .rows import *
from .scans import *
from .segments import *
from .selection import *
from .sparse_products import *
from .stencils import *

__all__ = sorted(name for name, value in globals().items() if hasattr(value, "declaration"))
"""The functions that the families list in their own `__all__`."""
