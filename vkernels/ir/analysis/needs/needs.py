"""The needs of a kernel: expressions, and their values under a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from ...errors import PlanError
from ...plan import Home, Plan
from .algebra import Expr, most, parts, symbol
from .constants import UNKNOWN_TRIPS, constants_for
from .device import NeedsDevice
from .kinds import AxisNeed, Crossing, Dot, PhaseNeeds, Reduction, Scratchpad
from .use import Columns, NeedsUse, PhaseUse

if TYPE_CHECKING:
    from types import CodeType

    import numpy as np
    from numpy.typing import NDArray

    from .compiled import Function

_FIELDS = tuple(field.name for field in fields(PhaseUse))[1:]
SPILL_ALLOWANCE = 64
"""Bytes a thread that may spill before a plan counts as one that spills: compilers put that much aside for reasons of
their own, at half of the registers too."""
_PACK_ROWS = 512
"""Positions along a packed operand's whole axis that one program of its launch copies (`apply_plan/packs.py`)."""
_SUMMED = (
    "global_read_bytes", "global_write_bytes", "shared_bytes_moved", "swap_bytes_moved", "operations",
    "tensor_operations",
)  # fmt: skip


@dataclass(frozen=True)
class Needs:
    """What a kernel needs, phase by phase, as expressions. Made by `needs_of`.

    Symbols: a size's name is the call's size; `tile.i`, `chunk.j` elements of a program or a chunk; `held.j` 1 where a
    plan holds whole axis j at once; `split.j` programs that share it; `shared.e`, `memory.e` 1 where that is e's home,
    a scratchpad's too; `copies.s` 1 for a second copy of a scratchpad; `packed.a` 1 where tensor a is packed;
    `plan.warps`, `plan.stages`, `device.warp`; `trips.k` of a loop whose bounds are no sizes. `most`, `least`: the
    largest, the smallest; `pieces(a, b)`: a / b, rounded up; `fits(a, b)`: 1 where a is at least b.
    `splittable`: of each such axis, the launches of a kernel that is split along it: whether they share it.
    `found`: what a planner found out about the kernel, whatever sizes and limits, and need not find out again.
    """

    kernel: str
    axes: tuple[AxisNeed, ...]
    phases: tuple[PhaseNeeds, ...]
    crossing: tuple[Crossing, ...]
    scratchpads: tuple[Scratchpad, ...]
    dots: tuple[Dot, ...]
    reductions: tuple[Reduction, ...]
    packable: Mapping[str, tuple[str, str]]
    splittable: Mapping[str, tuple[bool, ...]]
    scratch_bytes: Expr
    swap_bytes: Expr
    distinct_read_bytes: Expr
    found: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def evaluate(self, plan: Plan, sizes: Mapping[str, int], device: NeedsDevice) -> NeedsUse:
        """What the kernel takes under a plan, for a call's sizes by name.

        Raises `PlanError` where plan or call leave an axis or a size out.
        """
        extents = self.extents(sizes)
        values = self._evaluate(*self._bound(plan, sizes, extents, device))
        return self._use(plan, extents, device, values)

    def evaluate_many(self, plans: Sequence[Plan], sizes: Mapping[str, int], device: NeedsDevice) -> list[NeedsUse]:
        """`evaluate` of many plans, their expressions as NumPy arrays where there are more than a few."""
        import numpy as np

        if len(plans) < 4:
            return [self.evaluate(plan, sizes, device) for plan in plans]
        extents = self.extents(sizes)
        rows = np.array([self._bound(plan, sizes, extents, device) for plan in plans], dtype=np.float64).T
        columns = [np.broadcast_to(np.asarray(value, dtype=np.float64), len(plans)) for value in self._arrays(*rows)]
        table = np.stack(columns, axis=1).tolist()
        return [self._use(plan, extents, device, row) for plan, row in zip(plans, table, strict=True)]

    def columns(
        self,
        plan: Plan,
        sizes: Mapping[str, int],
        device: NeedsDevice,
        given: Mapping[str, NDArray[np.float64]],
        phases: tuple[str, ...] | None = None,
    ) -> Columns:
        """What plans hold that differ from one in the values of some symbols alone, which are `given` by name; in some
        phases where they are named, else in all.

        Names that the needs do not have are passed over. Arrays are broadcast: give what depends on one size alone
        an axis of its own, and little is computed more than once.
        """
        import numpy as np

        bound = self._bound(plan, sizes, self.extents(sizes), device)
        values = [np.asarray(given.get(name, value), float) for name, value in zip(self._names, bound, strict=True)]
        registers, least, own, tensor_memory, scratch = self._held_in(phases)(*values)
        return Columns(registers, least, _shared(scratch, own, device), tensor_memory)

    def extents(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The positions of each axis."""
        try:
            values = self._extents(*(sizes[name] for name in self._size_names))
        except KeyError as error:
            raise PlanError(f"{self.kernel}: the size {error.args[0]} is not given") from None
        return {axis.name: max(0, int(value)) for axis, value in zip(self.axes, values, strict=True)}

    # Lambdified once

    @cached_property
    def _outputs(self) -> list[Any]:
        each = [getattr(phase, name) for phase in self.phases for name in _FIELDS]
        return [*each, self.scratch_bytes, self.swap_bytes, self.distinct_read_bytes]

    @cached_property
    def _symbols(self) -> list[Any]:
        return sorted((part for part in parts(self._outputs) if part.is_symbol), key=lambda part: str(part.args[0]))

    @cached_property
    def _size_names(self) -> list[str]:
        return sorted({name for axis in self.axes for name in axis.extent.symbols})

    @cached_property
    def _extents(self) -> Any:
        from .compiled import compiled, of_numbers

        symbols = [symbol(name) for name in self._size_names]
        return of_numbers(compiled(symbols, [axis.extent for axis in self.axes]))

    @cached_property
    def _code(self) -> CodeType:
        from .compiled import compiled

        return compiled(self._symbols, self._outputs)

    @cached_property
    def _evaluate(self) -> Function:
        from .compiled import of_numbers

        return of_numbers(self._code)

    @cached_property
    def _arrays(self) -> Function:
        from .compiled import of_arrays

        return of_arrays(self._code)

    def _held_in(self, phases: tuple[str, ...] | None) -> Function:
        """Of the worst of some phases: registers, the least of them, shared bytes, tensor memory; and scratchpads."""
        from .compiled import compiled, of_arrays

        made = self._held.get(phases)
        if made is None:
            some = [phase for phase in self.phases if phases is None or phase.name in phases]
            fields = ("registers_a_thread", "registers_at_least", "shared_bytes", "tensor_memory_columns")
            worst = [most(getattr(phase, name) for phase in some) for name in fields]
            made = self._held[phases] = of_arrays(compiled(self._symbols, [*worst, self.scratch_bytes]))
        return made

    @cached_property
    def _held(self) -> dict[tuple[str, ...] | None, Function]:
        return {}

    @cached_property
    def _names(self) -> list[str]:
        return [str(symbol.args[0]) for symbol in self._symbols]

    # Symbols' values

    def _bound(
        self, plan: Plan, sizes: Mapping[str, int], extents: Mapping[str, int], device: NeedsDevice
    ) -> list[float]:
        known: dict[str, float] = {
            **sizes, **constants_for(device), "plan.warps": 1 if device.is_cpu else plan.warps,
            "plan.stages": plan.stages, "device.warp": device.warp,
            "device.tensor_memory": int(device.tensor_memory > 0), "device.copies_ahead": int(device.copies_ahead),
            "device.dots_from_shared": int(device.dots_from_shared), "device.tensor_cores": int(device.tensor_cores),
            "device.is_amd": int(device.is_amd), "device.is_cpu": int(device.is_cpu),
        }  # fmt: skip
        for axis in self.axes:
            size = (plan.tiles if axis.is_tile else plan.chunks).get(axis.name)
            if size is None or size < 1:
                raise PlanError(f"the plan gives axis {axis.name} of {self.kernel} {size or 'no'} elements")
            known[f"{'tile' if axis.is_tile else 'chunk'}.{axis.name}"] = size
            if not axis.is_tile:
                split = plan.splits.get(axis.name, 1)
                known[f"split.{axis.name}"] = split
                known[f"held.{axis.name}"] = int(extents[axis.name] <= size and split == 1)
        for value in self.crossing:
            is_freed = bool(value.freed_by) and set(value.freed_by) <= set(plan.copies)
            home = plan.homes.get(value.label, Home.RECOMPUTE if is_freed else value.homes[0])
            known[f"shared.{value.label}"] = int(home is Home.SHARED)
            known[f"memory.{value.label}"] = int(home is Home.MEMORY)
        for scratchpad in self.scratchpads:
            in_memory = plan.homes.get(scratchpad.label) is Home.MEMORY
            known[f"memory.{scratchpad.label}"] = int(in_memory)
            known[f"copies.{scratchpad.label}"] = int(scratchpad.label in plan.copies)
        for tensor in plan.packs:
            known[f"packed.{tensor}"] = 1
        return [self._value(name, known) for name in self._names]

    def _value(self, name: str, known: Mapping[str, float]) -> float:
        value = known.get(name)
        if value is not None:
            return value
        if name.startswith("packed."):
            return 0
        if name.startswith("trips."):
            return UNKNOWN_TRIPS
        raise PlanError(f"{self.kernel}: the size {name} is not given")

    # Results

    def _use(self, plan: Plan, extents: Mapping[str, int], device: NeedsDevice, values: Sequence[float]) -> NeedsUse:
        count = len(_FIELDS)
        phases = tuple(
            PhaseUse(phase.name, *values[n * count : (n + 1) * count]) for n, phase in enumerate(self.phases)
        )
        scratch, swap, distinct = values[-3:]
        threads = device.warp * plan.warps
        registers = max((phase.registers_a_thread for phase in phases), default=0)
        least = max((phase.registers_at_least for phase in phases), default=0)
        own = max((phase.shared_bytes for phase in phases), default=0)
        return NeedsUse(
            phases, threads,
            register_bytes=max((phase.register_bytes for phase in phases), default=0),
            registers_a_thread=registers,
            spills=least > device.registers_of(threads) + SPILL_ALLOWANCE / device.register_bytes,
            shared_bytes=_shared(scratch, own, device),
            scratch_bytes=scratch,
            swap_bytes=swap,
            tensor_memory_columns=max((phase.tensor_memory_columns for phase in phases), default=0),
            distinct_read_bytes=distinct,
            programs=self._programs(plan, extents),
            **{name: sum(getattr(phase, name) for phase in phases) for name in _SUMMED},
        )  # fmt: skip

    def _programs(self, plan: Plan, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Of each launch: packs first, then one, or those of a split axis."""
        along = {axis.name: -(-extents[axis.name] // plan.tiles[axis.name]) for axis in self.axes if axis.is_tile}
        packs = [self.packable[name] for name in plan.packs if name in self.packable]
        grids = [along[tile] * -(-extents[whole] // _PACK_ROWS) for tile, whole in packs]
        grid = prod(along.values())
        split = plan.split
        if split is None:
            return (*grids, *[grid] * (len(plan.launches) + 1))
        return (
            *grids,
            *(grid * plan.splits[split] if shares else grid for shares in self.splittable.get(split, (True,))),
        )


def _shared(scratch: Any, own: Any, device: NeedsDevice) -> Any:
    """Triton's own first, the scratchpad at the next multiple of 128 bytes (`compiler/backends/llvm_scratchpad.py`).

    Of numbers or of arrays.
    """
    if device.is_cpu:
        return scratch
    return own + (scratch > 0) * (-own % 128 + scratch + 16)
