"""What a plan makes of each axis: tiles of programs, chunks, or all of it at once."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from ..dialect import KernelOp, SizeOp, TileOp, WholeOp, arith
from ..errors import PlanError
from ..facts import Facts
from ..plan import Plan


@dataclass(frozen=True)
class MappedAxis:
    """An axis under a plan. `size`: elements of a program's tile, of a chunk, or of all of a held axis.

    `extent`: the number of positions, as the kernel computes it; `known`: the same, where facts tell.
    `exact`: whether the size is known to divide the extent, so that no position is in excess.
    `programs`: how many programs share a whole axis, 1 if it is not split.
    """

    name: str
    is_tile: bool
    extent: SSAValue
    known: int | None
    size: int
    exact: bool
    programs: int = 1

    @property
    def is_held(self) -> bool:
        """Whether a whole axis is processed at once."""
        return not self.is_tile and self.programs == 1 and self.known is not None and self.known <= self.size

    @property
    def is_chunked(self) -> bool:
        """Whether a whole axis is processed chunk by chunk."""
        return not self.is_tile and not self.is_held

    @property
    def is_masked(self) -> bool:
        """Whether a tile or a held axis may have positions in excess."""
        return self.known != self.size if self.is_held else not self.exact

    @property
    def has_one_program(self) -> bool:
        return self.known is not None and self.known <= self.size

    @property
    def capacity(self) -> int | None:
        """Elements of memory for the axis, the last chunk in full; None if its extent is not known."""
        if self.is_tile or self.is_held:
            return self.size
        return None if self.known is None else -(-self.known // self.size) * self.size


def resolve_axes(kernel: KernelOp, plan: Plan, facts: Facts) -> dict[str, MappedAxis]:
    """Every axis that the kernel declares, by name, in the order of declaration.

    Raises `PlanError` where the plan leaves an axis out, names one that does not exist, or gives it no elements.
    """
    axes: dict[str, MappedAxis] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, TileOp | WholeOp):
            name, is_tile = op.axis.data, isinstance(op, TileOp)
            size = (plan.tiles if is_tile else plan.chunks).get(name)
            if size is None or size < 1:
                raise PlanError(f"the plan gives {'tile' if is_tile else 'whole'} axis {name} {size or 'no'} elements")
            known = known_value(op.extent, facts)
            exact = is_multiple(op.extent, size, facts)
            axes[name] = MappedAxis(name, is_tile, op.extent, known, size, exact, _programs(name, is_tile, plan))
    _check_names(kernel, plan, axes)
    if sum(axis.programs > 1 for axis in axes.values()) > 1:
        raise PlanError(f"the plan splits {', '.join(plan.splits)} over programs: only one axis can be split")
    return axes


def _programs(name: str, is_tile: bool, plan: Plan) -> int:
    programs = plan.splits.get(name, 1)
    if programs < 1 or (is_tile and name in plan.splits):
        raise PlanError(
            f"the plan splits axis {name} over {programs} programs; only whole axes are split, over 1 or more"
        )
    return programs


def _check_names(kernel: KernelOp, plan: Plan, axes: dict[str, MappedAxis]) -> None:
    lanes = (plan.lanes,) if plan.lanes is not None else ()
    for name in (*plan.tiles, *plan.chunks, *plan.splits, *plan.order, *lanes):
        if name not in axes:
            raise PlanError(f"the plan names axis {name}; {kernel.sym_name.data} has {', '.join(axes) or 'none'}")
    for name in (*plan.tiles, *plan.order):
        if not axes[name].is_tile:
            raise PlanError(f"the plan gives whole axis {name} a place among the tile axes")
    for name in plan.chunks:
        if axes[name].is_tile:
            raise PlanError(f"the plan gives tile axis {name} a chunk")


def known_value(value: SSAValue, facts: Facts) -> int | None:
    """The value of scalar i64 arithmetic on sizes, where facts tell."""
    op = value.owner
    if isinstance(op, SizeOp):
        return facts.sizes.get(op.size.data)
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        left, right = known_value(op.lhs, facts), known_value(op.rhs, facts)
        if left is None or right is None:
            return None
        if isinstance(op, arith.MuliOp):
            return left * right
        return left + right if isinstance(op, arith.AddiOp) else left - right
    return None


def is_multiple(value: SSAValue, number: int, facts: Facts) -> bool:
    """Whether `number` is known to divide scalar i64 arithmetic on sizes."""
    if number == 1:
        return True
    known = known_value(value, facts)
    if known is not None:
        return known % number == 0
    op = value.owner
    if isinstance(op, SizeOp):
        return facts.divides(number, op.size.data)
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        return is_multiple(op.lhs, number, facts) and is_multiple(op.rhs, number, facts)
    if isinstance(op, arith.MuliOp):
        return is_multiple(op.lhs, number, facts) or is_multiple(op.rhs, number, facts)
    return False
