"""Whether a kernel can have a plan: each decision's own check, in the order in which they are reported."""

from __future__ import annotations

from collections.abc import Callable

from .check_operations import check_operations
from .cut_launches import check_cuts
from .packs import check_packs
from .planned_kernel import PlannedKernel
from .split_axes import check_split

CHECKS: tuple[Callable[[PlannedKernel], None], ...] = (check_packs, check_split, check_cuts, check_operations)
"""Raise `PlanError` where the kernel cannot have what the plan decides. What scheduling finds is not among them."""


def check_plan(planned: PlannedKernel) -> None:
    """Raise `PlanError` where the kernel cannot have the plan. Nothing is emitted."""
    for check in CHECKS:
        check(planned)
