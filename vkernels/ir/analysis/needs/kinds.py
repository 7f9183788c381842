"""What a kernel offers a planner to decide: axes, values that cross phases, scratchpads, dots, reductions."""

from __future__ import annotations

from dataclasses import dataclass

from ...plan import Home
from .algebra import Expr


@dataclass(frozen=True)
class AxisNeed:
    """An axis that the plan gives a size. `extent`: its positions, in the call's sizes."""

    name: str
    is_tile: bool
    extent: Expr


@dataclass(frozen=True)
class Crossing:
    """A value that is computed in one phase and used in others.

    `axes`: all; `whole`: those that may be processed in chunks. While none of them is, the value stays in registers;
    else one of `homes` is its home. `made` and `used`: names of phases. `recompute_operations`,
    `recompute_read_bytes`: what computing it again costs each phase that uses it, all programs together.
    `freed_by`: scratchpads of which a second copy makes computing it again right, and what happens unless a plan says.
    """

    label: str
    axes: tuple[str, ...]
    whole: tuple[str, ...]
    element_bytes: int
    homes: tuple[Home, ...]
    made: str
    used: tuple[str, ...]
    recompute_operations: Expr
    recompute_read_bytes: Expr
    freed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scratchpad:
    """The author's. `dimensions`: axes or numbers. `can_copy`: whether a plan may keep it in two copies."""

    label: str
    dimensions: tuple[str | int, ...]
    element_bytes: int
    can_copy: bool


@dataclass(frozen=True)
class Dot:
    """`rows`, `columns`: axes of the left and of the right operand alone; both have `batch`. `operand_bytes`: of an
    element as tensor cores take it."""

    phase: str
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axis: str
    operand_bytes: int


@dataclass(frozen=True)
class Reduction:
    """`kind`: sum, product, max, min, or scan. `axes`: of what is reduced."""

    phase: str
    kind: str
    axis: str
    axes: tuple[str, ...]
    element_bytes: int


@dataclass(frozen=True)
class PhaseNeeds:
    """One phase, as expressions (see `Use` for what each means). `name` is the phase's; `axes` are all it works on."""

    name: str
    axes: tuple[str, ...]
    register_bytes: Expr
    registers_a_thread: Expr
    shared_bytes: Expr
    tensor_memory_columns: Expr
    global_read_bytes: Expr
    global_write_bytes: Expr
    shared_bytes_moved: Expr
    swap_bytes_moved: Expr
    operations: Expr
    tensor_operations: Expr
    registers_at_least: Expr
