"""Check that a kernel can have a plan: each decision's own check, then that every operation can be mapped."""

from __future__ import annotations

from xdsl.dialects import scf

from ...analysis.places import located
from ...dialect import AccessOp, ReductionOp, ScratchType
from ...errors import PlanError
from ...locations import place_of
from .cut_launches import check_cuts
from .descriptors import check_descriptors
from .guards import check_guards
from .k_major import check_k_major
from .packs import check_packs
from .planned_kernel import PlannedKernel
from .private_copies import check_private_copies
from .split_axes import check_split
from .swizzle import check_swizzle
from .warp_roles import check_warp_roles


def check_plan(planned: PlannedKernel) -> None:
    """Raise `PlanError` where the kernel cannot have the plan. Nothing is emitted.

    `plan_kernel` has checked what scheduling needs.
    """
    with located(planned.kernel):
        for check in (
            check_packs, check_k_major, check_split, check_cuts, check_swizzle, check_private_copies, check_guards,
            check_descriptors, check_warp_roles, _check_operations,
        ):  # fmt: skip
            check(planned)


def _check_operations(planned: PlannedKernel) -> None:
    """Raise `PlanError` for reductions along tile axes, and for scratchpads and loops that programs cannot share."""
    for op in planned.kernel.walk():
        if isinstance(op, ReductionOp) and planned.axes[op.axis.data].is_tile:
            raise PlanError(
                f"{op.name} along {op.axis.data}: a tile axis is split over programs and cannot be reduced",
                place_of(op),
                help=f"Declare `{op.axis.data}` with `vk.whole`.",
            )
        if isinstance(op, AccessOp) and isinstance(op.base.type, ScratchType):
            _check_scratchpad(planned, op)
        if isinstance(op, scf.WhileOp) and planned.analysis.is_structural(op):
            is_handed_on = all(value in planned.schedule.shares for value in op.arguments)
            if len(op.arguments) != len(op.results) and not is_handed_on:
                raise PlanError("a while loop over phases must pass on all values that it carries", place_of(op))


def _check_scratchpad(planned: PlannedKernel, op: AccessOp) -> None:
    for dimension, index in enumerate(op.index.data):
        for axis, _ in index.terms:
            is_plain = index.terms == ((axis, 1),) and op.offset_of(dimension) is None
            if planned.axes[axis].is_tile and not is_plain:
                raise PlanError(
                    f"scratchpad {op.base.name_hint or ''} is split over programs along {axis}:"
                    f" only {axis} itself can index it",
                    place_of(op),
                )
