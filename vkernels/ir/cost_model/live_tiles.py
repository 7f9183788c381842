"""Which tiles are alive at the worst point of a CPU's loop.

In a range, which a program repeats, elementwise work on what the range carries is done register by register: the next
value takes the registers of the one before, and what is loaded and computed for it alone takes one at a time; a load is
often the operand of an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ..analysis.kernel_analysis import KernelAnalysis
from ..dialect import AccessOp, DotOp, RangeOp, ReductionOp, ScanByOp, ScanOp, YieldOp, arith, axes_of
from .item_widths import bytes_of
from .loops import Axes, LiveTile
from .read_accesses import TouchOf, beside_rows

_NOTHING = ("vk.broadcast", "arith.constant")
"""Operations that are repeated where they are used, or share their operand's registers."""
_WHOLE = (AccessOp, DotOp, ReductionOp, ScanOp, YieldOp, scf.YieldOp)
"""Operations that are not done register by register."""


def most_alive(
    analysis: KernelAnalysis, items: Sequence[Operation], reductions: Sequence[Operation], touch_of: TouchOf
) -> tuple[LiveTile, ...]:
    """The tiles alive at the worst point of a loop over these items, as if all axes had the same number of elements."""
    flat = [one for op in items for one in op.walk()]
    last: dict[SSAValue, int] = {}
    for number, op in enumerate(flat):
        for value in analysis.inputs(op):
            last[analysis.source(value)] = number
    worst: list[SSAValue] = []
    scanned = (result for op in flat if isinstance(op, ScanByOp) for result in op.results)
    here: list[SSAValue] = [result for result in scanned if result.first_use is not None]
    most = 0
    for number, op in enumerate(flat):
        if op not in reductions and op.name not in _NOTHING and not isinstance(op, ScanByOp) and not _is_next(op):
            here += [result for result in op.results if isinstance(result.type, TensorType)]
        axes = sum(len(_held_axes(value)) for value in here)
        if axes >= most:
            worst, most = here, axes
        here = [value for value in here if last.get(value, -1) > number]
    return tuple(alive(value, touch_of) for value in worst)


def _is_next(op: Operation) -> bool:
    """Whether an operation gives the next value of what a range carries, in the registers of the one before."""
    carried = [value for value in op.operands if _is_carried(value) and value.has_one_use()]
    if not carried or not _is_by_registers(op) or not op.results[0].has_one_use():
        return False
    return isinstance(_user(op.results[0]), YieldOp | scf.YieldOp)


def _is_by_registers(op: Operation) -> bool:
    """Whether an operation is elementwise, with a result: checks and prints have none."""
    return isinstance(op, ScanByOp) or (bool(op.results) and not op.regions and not isinstance(op, _WHOLE))


def _is_carried(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) and isinstance(value.block.parent_op(), RangeOp)


def _user(value: SSAValue) -> Operation:
    use: Operation = next(iter(value.uses)).operation
    return use


def _held_axes(value: SSAValue) -> Axes:
    """The axes of the registers that hold a value: none where it is there for one register of what a range carries."""
    return () if _leads_to_next(value) else axes_of(value)


def _leads_to_next(value: SSAValue) -> bool:
    """Whether a value is only used, register by register, for the next value of what a range carries."""
    if not value.has_one_use() or not isinstance(value.owner, Operation):
        return False
    user = _user(value)
    if user.parent is not value.owner.parent or not _is_by_registers(user):
        return False
    if axes_of(user.results[0]) != axes_of(value):
        return False
    return isinstance(user, ScanByOp) or _is_next(user) or _leads_to_next(user.results[0])


def alive(value: SSAValue, touch_of: TouchOf) -> LiveTile:
    """A value as a tile that is alive."""
    return LiveTile(_held_axes(value), bytes_of(value.type), _goes_into_dot(value), beside_rows(value, touch_of))


def _goes_into_dot(value: SSAValue) -> bool:
    """Whether a dot multiplies a value, or what it is extended to."""
    return any(
        _goes_into_dot(use.operation.results[0])
        if isinstance(use.operation, arith.ExtFOp)
        else isinstance(use.operation, DotOp) and use.index < 2
        for use in value.uses
    )


def carried_by(reduction: Operation) -> LiveTile:
    """The partial results of a reduction."""
    axes, _, width = reduced_tile(reduction)
    return LiveTile(axes, width, False)


def highest(maximum: Operation) -> LiveTile:
    """The maximum so far that a loop carries which goes online."""
    axes, along, width = reduced_tile(maximum)
    return LiveTile(tuple(axis for axis in axes if axis != along), width, False)


def reduced_tile(op: Operation) -> tuple[Axes, str, int]:
    """The axes of a reduction's partial results, the axis that it reduces along, and bytes of an element."""
    if isinstance(op, DotOp):
        return axes_of(op.results[0]), op.axis.data, bytes_of(op.results[0].type)
    return axes_of(op.operands[0]), op.axis.data, bytes_of(op.operands[0].type)  # type: ignore[attr-defined]
