"""Accesses that a descriptor of their tensor moves, box by box."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument

from ...analysis.descriptors import contiguous_dimension, is_box, why_not_described, why_not_of_sizes
from ...dialect import AccessOp, SizeOp, TensorArgumentType, arith, axes_of_box
from ...errors import PlanError
from ...locations import place_of
from .planned_kernel import PlannedKernel


def check_descriptors(planned: PlannedKernel) -> None:
    """Raise `PlanError` for a tensor that no descriptor can move, or none by boxes of the plan's sizes."""
    for name in planned.plan.descriptors:
        if reason := why_not_described(planned.kernel, name):
            raise PlanError(f"the plan moves {name} by descriptors: {reason}", about=name)
        if name in planned.plan.packs:
            raise PlanError(f"the plan moves {name} by descriptors and packs it: not both", about=name)
        for op in described_accesses(planned, name):
            last = contiguous_dimension(planned.facts, name)
            sizes = box_sizes(planned, op)
            if reason := why_not_of_sizes(sizes, len(sizes) - 1 if last is None else last, op.memory.element):
                raise PlanError(f"the plan moves {name} by descriptors: {reason}", place_of(op))


def described_accesses(planned: PlannedKernel, name: str) -> list[AccessOp]:
    """The accesses of a tensor that take boxes."""
    users = (use.operation for use in planned.kernel.parameter(name).uses)
    return [user for user in users if isinstance(user, AccessOp) and is_box(user)]


def box_sizes(planned: PlannedKernel, op: AccessOp) -> list[int]:
    """The positions along each dimension that the plan's box of an access has."""
    return [1 if axis is None else planned.axes[axis].size for axis in axes_of_box(op.index) or ()]


def is_described(planned: PlannedKernel, op: AccessOp, bounded: Collection[str]) -> bool:
    """Whether the plan moves an access of the kernel, bounded along some axes and not masked, by a descriptor, and the
    call's layout allows it."""
    name = _tensor_name(planned, op)
    if name not in planned.plan.descriptors or not is_box(op) or contiguous_dimension(planned.facts, name) is None:
        return False
    axes = axes_of_box(op.index) or ()
    return all(_ends_with_tensor(planned, op, axes.index(axis)) for axis in bounded)


def _tensor_name(planned: PlannedKernel, op: AccessOp) -> str:
    """The parameter that an access addresses; empty for scratchpads."""
    base, kernel = op.base, planned.kernel
    if isinstance(base, BlockArgument) and base.block is kernel.body.block:
        return kernel.parameters.data[base.index].data
    return ""


def _ends_with_tensor(planned: PlannedKernel, op: AccessOp, dimension: int) -> bool:
    """Whether the last position of a dimension's axis is the tensor's last one: then no bound is needed beside it."""
    assert isinstance(op.base.type, TensorArgumentType), "a box is of a tensor"
    ((axis, _),) = op.index.data[dimension].terms
    size, extent = op.base.type.shape[dimension], planned.axes[axis].extent.owner
    if op.offset_of(dimension) is not None:
        return False
    if isinstance(extent, SizeOp):
        return extent.size.data == size
    return (
        isinstance(extent, arith.ConstantOp)
        and isinstance(extent.value, IntegerAttr)
        and extent.value.value.data == size
    )
