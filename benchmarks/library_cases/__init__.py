"""What benchmarks/library.py compares, by family."""

from __future__ import annotations

import torch

from . import dense, elements, finite, rows, sparse
from .case import Case

FAMILIES = {"rows": rows, "dense": dense, "sparse": sparse, "elements": elements, "finite": finite}


def all_cases(seed: int = 0) -> list[Case]:
    """Every case, with the same numbers for the same seed."""
    torch.manual_seed(seed)
    return [case for family in FAMILIES.values() for case in family.cases()]
