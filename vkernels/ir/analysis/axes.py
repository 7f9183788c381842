"""How a plan divides each axis: into tiles of programs, into chunks, or not at all."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialect import KernelOp, SizeOp, TileOp, WholeOp, arith
from ..errors import PlanError
from ..facts import Facts
from ..locations import place_of
from ..plan import Plan
from .accesses import constant_of


@dataclass(frozen=True)
class MappedAxis:
    """An axis under a plan. `size`: elements of a program's tile, of a chunk, or of a held axis.

    `extent`: the number of positions, as the kernel computes it; `known`: its value, if facts give it; `most`: a number
    that it does not exceed, for which memory is laid out, if facts give one: the value itself where it is known.
    `exact`: whether the size is known to divide the extent, so that no position is out of range.
    `programs`: how many programs share a whole axis; 1 if it is not split.
    """

    name: str
    is_tile: bool
    extent: SSAValue
    known: int | None
    size: int
    exact: bool
    programs: int = 1
    most: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether a whole axis is processed at once."""
        return not self.is_tile and self.programs == 1 and self._has_one_part

    @property
    def is_chunked(self) -> bool:
        """Whether a whole axis is processed chunk by chunk."""
        return not self.is_tile and not self.is_held

    @property
    def is_masked(self) -> bool:
        """Whether a tile or a held axis may have positions out of range."""
        return self.known != self.size if self.is_held else not self.exact

    @property
    def has_one_program(self) -> bool:
        return self._has_one_part

    @property
    def _has_one_part(self) -> bool:
        return self.most is not None and self.most <= self.size

    @property
    def length(self) -> int | None:
        """Elements that the axis has in memory, in whole chunks; None if its extent is not known."""
        if self.is_tile or self.is_held:
            return self.size
        return None if self.known is None else self._in_chunks(self.known)

    @property
    def capacity(self) -> int | None:
        """Elements that memory of constant size has along the axis; None if facts do not bound its extent."""
        if self.is_tile or self.is_held:
            return self.size
        return None if self.most is None else self._in_chunks(self.most)

    def _in_chunks(self, extent: int) -> int:
        return -(-extent // self.size) * self.size


def resolve_axes(kernel: KernelOp, plan: Plan, facts: Facts) -> dict[str, MappedAxis]:
    """Every axis that the kernel declares, by name, in the order of declaration.

    Raises `PlanError` where the plan lacks an axis, names one that does not exist, or gives it no elements.
    """
    axes: dict[str, MappedAxis] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, TileOp | WholeOp):
            name, is_tile = op.axis.data, isinstance(op, TileOp)
            size = (plan.tiles if is_tile else plan.chunks).get(name)
            if size is None or size < 1:
                kind = "tile" if is_tile else "whole"
                raise PlanError(f"the plan gives {kind} axis {name} {size or 'no'} elements", place_of(op))
            programs = plan.splits.get(name, 1)
            if programs < 1 or (is_tile and name in plan.splits):
                raise PlanError(
                    f"the plan splits axis {name} over {programs} programs; only whole axes are split, over 1 or more",
                    place_of(op),
                )
            known, exact = known_value(op.extent, facts), is_multiple(op.extent, size, facts)
            most = most_value(op.extent, facts)
            axes[name] = MappedAxis(name, is_tile, op.extent, known, size, exact, programs, most)
    _check_names(kernel, plan, axes)
    if sum(axis.programs > 1 for axis in axes.values()) > 1:
        raise PlanError(
            f"the plan splits {', '.join(plan.splits)} over programs: only one axis can be split",
            about=next(iter(plan.splits)),
        )
    return axes


def _check_names(kernel: KernelOp, plan: Plan, axes: dict[str, MappedAxis]) -> None:
    lanes = (plan.lanes,) if plan.lanes is not None else ()
    for name in (*plan.tiles, *plan.chunks, *plan.splits, *plan.order, *lanes):
        if name not in axes:
            raise PlanError(f"the plan names axis {name}; {kernel.sym_name.data} has {', '.join(axes) or 'none'}")
    for name in (*plan.tiles, *plan.order):
        if not axes[name].is_tile:
            raise PlanError(f"the plan gives whole axis {name} a place among the tile axes", about=name)
    for name in plan.chunks:
        if axes[name].is_tile:
            raise PlanError(f"the plan gives tile axis {name} a chunk", about=name)


Number = TypeVar("Number")
Arithmetic = Mapping[type[Operation], Callable[[Any, Any], Any]]
INTEGER_ARITHMETIC: Arithmetic = {
    arith.AddiOp: operator.add, arith.SubiOp: operator.sub, arith.MuliOp: operator.mul,
}  # fmt: skip


def evaluate(
    value: SSAValue,
    size: Callable[[str], Number | None],
    constant: Callable[[int], Number],
    arithmetic: Arithmetic = INTEGER_ARITHMETIC,
) -> Number | None:
    """Evaluate scalar i64 arithmetic on sizes; None where it is anything else or a size is not known."""
    op = value.owner
    if isinstance(op, SizeOp):
        return size(op.size.data)
    if (known := constant_of(value)) is not None:
        return constant(known)
    if not isinstance(op, Operation) or type(op) not in arithmetic:
        return None
    left, right = (evaluate(operand, size, constant, arithmetic) for operand in op.operands)
    return None if left is None or right is None else arithmetic[type(op)](left, right)


def known_value(value: SSAValue, facts: Facts) -> int | None:
    """The value of scalar i64 arithmetic on sizes, if facts give it."""
    return evaluate(value, facts.sizes.get, int)


def most_value(value: SSAValue, facts: Facts) -> int | None:
    """A number that scalar i64 arithmetic on sizes does not exceed, if `sizes` and `capacities` of facts give one."""
    if (known := known_value(value, facts)) is not None:
        return known
    op = value.owner
    if isinstance(op, SizeOp):
        return facts.capacities.get(op.size.data)
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    left, right = most_value(op.lhs, facts), most_value(op.rhs, facts)
    if left is None or right is None:
        return None
    if isinstance(op, arith.AddiOp):
        return left + right
    if isinstance(op, arith.SubiOp):  # what is taken away may be less than the most that it can be
        return None if known_value(op.rhs, facts) is None else left - right
    is_size = (_is_natural(operand, facts) for operand in op.operands)
    return left * right if all(is_size) else None  # two negative numbers have a product that no bound shows


def _is_natural(value: SSAValue, facts: Facts) -> bool:
    known = known_value(value, facts)
    return isinstance(value.owner, SizeOp) if known is None else known >= 0


def is_multiple(value: SSAValue, number: int, facts: Facts) -> bool:
    """Whether `number` is known to divide scalar i64 arithmetic on sizes, and on positions of loops by steps of its."""
    if number == 1:
        return True
    known = known_value(value, facts)
    if known is not None:
        return known % number == 0
    op = value.owner
    if isinstance(op, SizeOp):
        return facts.divides(number, op.size.data)
    if isinstance(op, Block):
        loop = op.parent_op()
        if not isinstance(loop, ForOp) or value is not op.args[0]:
            return False
        return all(is_multiple(each, number, facts) for each in (loop.lb, loop.step))
    if not isinstance(op, _KEEP_DIVISORS):
        return False
    divides = (is_multiple(operand, number, facts) for operand in op.operands)
    return any(divides) if isinstance(op, arith.MuliOp) else all(divides)


_KEEP_DIVISORS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MinSIOp, arith.MaxSIOp)
