"""Which rows a CPU loads as vectors and turns, where lanes lie across them: for the lowering, and for its model."""

from __future__ import annotations

LEAST_TURNED = 4
"""Elements of a row, at least: shorter ones are gathered."""
MOST_NEAR = 4
"""Elements from one lane to the next up to which vectors are loaded along the lanes, and their lanes moved."""
GATHERED = 4
"""Bytes of the smallest elements that processors gather and scatter. LLVM takes lanes of smaller ones one by one, and
each address out of a vector of addresses first, which takes longer than all else."""
