"""What needs consist of: what a planner decides about, and what phases and kernels use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...plan import Home
from .algebra import Expr

Quantity = TypeVar("Quantity")
"""An expression, or its value under a plan."""


@dataclass(frozen=True)
class AxisNeed:
    """An axis that the plan gives a size. `extent`: its number of positions, in the sizes of the call."""

    name: str
    is_tile: bool
    extent: Expr


@dataclass(frozen=True)
class Crossing:
    """A value that is computed in one phase and used in others.

    `axes`: all its axes; `whole`: those that may be processed in chunks. If none is, the value stays in registers;
    otherwise its home is one of `homes`. `made` and `used`: names of phases. `freed_by`: scratchpads; with a second
    copy of each, the value may be recomputed, and is unless the plan says otherwise. `summed`: the axis along which it
    is a dot that can go online, and then be accumulated in its home.
    """

    label: str
    axes: tuple[str, ...]
    whole: tuple[str, ...]
    element_bytes: int
    homes: tuple[Home, ...]
    made: str
    used: tuple[str, ...]
    freed_by: tuple[str, ...] = ()
    summed: str = ""


@dataclass(frozen=True)
class Scratchpad:
    """The author's scratchpad. `dimensions`: axes or numbers. `can_copy`: whether a plan may keep it in two copies."""

    label: str
    dimensions: tuple[str | int, ...]
    element_bytes: int
    can_copy: bool


@dataclass(frozen=True)
class Dot:
    """`rows`, `columns`: axes of the left and of the right operand only; both operands have `batch`."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axis: str


@dataclass(frozen=True)
class PhaseQuantities(Generic[Quantity]):
    """What one phase uses. Bytes moved and operations are totals of all programs.

    `register_bytes`: of the tiles of one program that are alive at the worst point. `registers_a_thread`: predicted,
    before any limit of the device (CPU: vector registers). `shared_bytes`: on-chip memory that the phase uses
    temporarily, for layout conversions, reductions across warps and operands of dots. `tensor_memory_columns`:
    accumulators. `global_read_bytes`, `global_write_bytes`: requested, whatever caches serve. `shared_bytes_moved`: to
    and from on-chip memory; `swap_bytes_moved`: to and from swap space. `operations`: elementwise operations and
    reductions, a plain sum or product as 1, others by weight; `tensor_operations`: of dots, two a multiply-add.
    `registers_at_least`: like `registers_a_thread`, but without what compilers need not keep alive: they use as many
    registers as there are, and make do with these before they spill.
    """

    name: str
    register_bytes: Quantity
    registers_a_thread: Quantity
    shared_bytes: Quantity
    tensor_memory_columns: Quantity
    global_read_bytes: Quantity
    global_write_bytes: Quantity
    shared_bytes_moved: Quantity
    swap_bytes_moved: Quantity
    operations: Quantity
    tensor_operations: Quantity
    registers_at_least: Quantity


SUMS = (
    "global_read_bytes", "global_write_bytes", "shared_bytes_moved", "swap_bytes_moved", "operations",
    "tensor_operations",
)  # fmt: skip
"""The quantities of phases that add up; of the others the worst phase counts."""

PhaseUse = PhaseQuantities[float]


@dataclass(frozen=True)
class PhaseNeeds(PhaseQuantities[Expr]):
    """What one phase needs, as expressions. `axes`: all axes that it works on."""

    axes: tuple[str, ...]


@dataclass(frozen=True)
class NeedsUse:
    """All phases, and the kernel: the worst phase for what is held, sums for what is moved or computed.

    `threads`: of a program. `shared_bytes`: of a program; `scratch_bytes` of them are scratchpads and shared homes,
    which last as long as the program. `swap_bytes`: of a resident program. `distinct_read_bytes`: counts each element
    once; `global_read_bytes` may be many times more, most of it served by caches. `programs`: of each launch.
    `spills`: whether a thread is predicted to spill more than 64 bytes on the device.
    """

    phases: tuple[PhaseUse, ...]
    threads: int
    register_bytes: float
    registers_a_thread: float
    spills: bool
    shared_bytes: float
    scratch_bytes: float
    swap_bytes: float
    tensor_memory_columns: float
    global_read_bytes: float
    distinct_read_bytes: float
    global_write_bytes: float
    shared_bytes_moved: float
    swap_bytes_moved: float
    operations: float
    tensor_operations: float
    programs: tuple[int, ...]


@dataclass(frozen=True)
class Columns:
    """What many plans hold, as numbers or NumPy arrays that broadcast to the shape of the plans.

    As in `NeedsUse`; `least_registers`: the largest `registers_at_least` of a phase.
    """

    registers: Any
    least_registers: Any
    shared: Any
    tensor_memory: Any
