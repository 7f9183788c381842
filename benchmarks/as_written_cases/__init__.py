"""What benchmarks/as_written.py compares, by family."""

from __future__ import annotations

from . import (
    attention,
    borders,
    chained,
    decompositions,
    layouts,
    moves,
    norms,
    products,
    rotary,
    scans,
    selection,
    stages,
    stencils,
)

FAMILIES = {
    "attention": attention, "rotary": rotary, "norms": norms, "selection": selection, "stencils": stencils,
    "products": products, "chained": chained, "decompositions": decompositions, "scans": scans, "moves": moves,
    "layouts": layouts, "borders": borders, "stages": stages,
}  # fmt: skip
