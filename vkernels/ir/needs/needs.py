"""The needs of a kernel: expressions, and their values under a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..dialect import KernelOp
from ..plan import Plan
from .device import Device
from .kinds import AxisNeed, Crossing, Dot, PhaseNeeds, Reduction, Scratchpad
from .use import Use

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class Needs:
    """What a kernel needs, phase by phase, as expressions.

    Symbols: an axis's name is its elements a program or a chunk; a size's name the call's size; `held_j` is 1 where a
    plan holds whole axis j at once; `e_shared`, `e_memory` are 1 where that is e's home; `copies_s` 1 for two copies of
    scratchpad s; `packed_a` 1 where tensor a is packed; `split_j` programs that share axis j; `warps`, `stages`.
    """

    kernel: str
    axes: tuple[AxisNeed, ...]
    phases: tuple[PhaseNeeds, ...]
    crossing: tuple[Crossing, ...]
    scratchpads: tuple[Scratchpad, ...]
    dots: tuple[Dot, ...]
    reductions: tuple[Reduction, ...]
    packable: tuple[str, ...]
    splittable: tuple[str, ...]
    scratch_bytes: sympy.Expr
    swap_bytes: sympy.Expr
    distinct_read_bytes: sympy.Expr

    def evaluate(self, plan: Plan, sizes: Mapping[str, int], device: Device) -> Use:
        """What the kernel takes under a plan, for a call's sizes on a device. Raises `PlanError` for an axis without size."""
        raise NotImplementedError

    def evaluate_many(self, plans: Sequence[Plan], sizes: Mapping[str, int], device: Device) -> list[Use]:
        """`evaluate` for many plans."""
        return [self.evaluate(plan, sizes, device) for plan in plans]


def annotate_needs(kernel: KernelOp) -> Needs:
    """The needs of a kernel; one that is not split into phases is split on a clone."""
    raise NotImplementedError
