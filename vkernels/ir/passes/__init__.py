"""Passes over vk IR. One pass a file, named by its verb; a line in `PASSES` makes it known by name.

Nothing is imported before it is asked for: a pass may need what is slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from xdsl.passes import ModulePass

PASSES: dict[str, str] = {
    "apply-plan": "map_kernels:ApplyPlan",
    "block-sums": "block_sums:BlockSums",
    "expand-math": "expand_math:ExpandMath",
    "insert-barriers": "insert_barriers:InsertBarriers",
    "lower-to-ttir": "lower_to_ttir:LowerToTtir",
    "split-phases": "split_phases:SplitPhases",
    "verify-mapped": "verify_mapped:VerifyMapped",
}
"""Name of each pass, as in `vk-opt --split-phases`, to the `module:Class` beside this file that holds it."""


def load_pass(name: str) -> type[ModulePass]:
    """Import the pass of this name; `KeyError` where `PASSES` has none."""
    module, class_ = PASSES[name].split(":")
    return cast("type[ModulePass]", getattr(import_module(f".{module}", __name__), class_))
