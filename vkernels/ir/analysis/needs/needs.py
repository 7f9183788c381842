"""The needs of a kernel: expressions, and their values under a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import count
from math import prod
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

from ...errors import PlanError
from ...plan import Home, Plan
from ..block_lengths import sums_of_blocks
from ..k_major import Contracted
from ..launch_axes import LaunchAxes
from ..parallel_axes import ParallelAxes
from .algebra import Expr, Function, compiled, evaluated, most, names_in, of_arrays, of_numbers
from .device import UNKNOWN_TRIPS, NeedsDevice, constants_for
from .records import SUMS, AxisNeed, Columns, Crossing, Dot, NeedsUse, PhaseNeeds, PhaseQuantities, Scratchpad

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIELDS = tuple(field.name for field in fields(PhaseQuantities))[1:]
SPILL_ALLOWANCE = 64
"""Bytes that a thread may spill before its plan counts as spilling: compilers reserve that much for reasons of their
own, even when they use only half of the registers."""
BEFORE_COMPILING = 3
"""Evaluations of a kernel's needs after which they are compiled: that takes as long."""
_PACK_ROWS = 512
"""Positions along a packed operand's whole axis that each program of its launch copies (`apply_plan/packs.py`)."""


@dataclass(frozen=True)
class Needs:
    """What a kernel needs, phase by phase, as expressions. Made by `needs_of`.

    Symbols: a size's name is the size in the call; `tile.i`, `chunk.j` elements of a program or a chunk; `held.j` 1
    where a plan holds whole axis j at once; `online.j` 1 where it goes online along it; `split.j` programs that share
    it; `shared.e`, `memory.e` 1 where that is the home of e, also of a scratchpad; `copies.s` 1 for a second copy of a
    scratchpad; `packed.a` 1 where tensor a is packed; `cut.p` 1 where a launch ends after phase p; `plan.warps`,
    `plan.stages`, `device.warp`; `plan.persistent` 1 where programs are; `trips.k` of a loop whose bounds are not
    sizes. `most`, `least`: the largest, the smallest; `pieces(a, b)`: a / b, rounded up; `fits(a, b)`: 1 where a is at
    least b.
    `splittable`: for each such axis, the launches of a kernel split along it, each with whether programs share the
    axis. `scanned`: axes that scans go along, each with whether one is by a function of the author's own.
    `packable`: tensors that can be packed, each with the tile axes and the whole axis of every place at which it is
    loaded. `launch_axes`: tile axes of each launch; `parallel_axes`: whole axes along which each is parallel.
    `contracted`: tensors that dots alone take. `found`: cache of what needs and planners compute from the kernel alone,
    independent of sizes and limits.
    """

    kernel: str
    axes: tuple[AxisNeed, ...]
    phases: tuple[PhaseNeeds, ...]
    crossing: tuple[Crossing, ...]
    scratchpads: tuple[Scratchpad, ...]
    dots: tuple[Dot, ...]
    packable: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
    contracted: Mapping[str, Contracted]
    splittable: Mapping[str, tuple[bool, ...]]
    scanned: Mapping[str, bool]
    launch_axes: LaunchAxes
    parallel_axes: ParallelAxes
    scratch_bytes: Expr
    swap_bytes: Expr
    distinct_read_bytes: Expr
    found: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def evaluate(self, plan: Plan, sizes: Mapping[str, int], device: NeedsDevice) -> NeedsUse:
        """What the kernel uses under a plan, for the sizes of a call by name.

        Raises `PlanError` where the plan lacks an axis or the call lacks a size.
        """
        extents = self.extents(sizes)
        values = self._values(self._bound(plan, sizes, extents, device))
        return self._use(plan, sizes, extents, device, values)

    def symbols(self, plan: Plan, sizes: Mapping[str, int], device: NeedsDevice) -> dict[str, float]:
        """The value of each symbol under a plan. Raises `PlanError` as `evaluate` does."""
        return dict(zip(self._names, self._bound(plan, sizes, self.extents(sizes), device), strict=True))

    def evaluate_many(self, plans: Sequence[Plan], sizes: Mapping[str, int], device: NeedsDevice) -> list[NeedsUse]:
        """`evaluate` for many plans: as NumPy arrays if there are more than a few."""
        import numpy as np

        if len(plans) < 4:
            return [self.evaluate(plan, sizes, device) for plan in plans]
        extents = self.extents(sizes)
        rows = np.array([self._bound(plan, sizes, extents, device) for plan in plans], dtype=np.float64).T
        columns = [np.broadcast_to(np.asarray(value, dtype=np.float64), len(plans)) for value in self._arrays(*rows)]
        table = np.stack(columns, axis=1).tolist()
        return [self._use(plan, sizes, extents, device, row) for plan, row in zip(plans, table, strict=True)]

    def columns(
        self,
        plan: Plan,
        sizes: Mapping[str, int],
        device: NeedsDevice,
        given: Mapping[str, NDArray[np.float64]],
        phases: tuple[str, ...] | None = None,
    ) -> Columns:
        """What plans hold that differ from `plan` only in the values of the symbols `given` by name.

        Counts only the named phases, or all of them. Names that do not occur in the needs are ignored. Arrays are
        broadcast: give what depends on one size an array axis of its own, and little is computed more than once.
        """
        bound = self._bound(plan, sizes, self.extents(sizes), device)
        values = [
            _plain(given[name]) if name in given else float(value)
            for name, value in zip(self._names, bound, strict=True)
        ]
        registers, least, own, tensor_memory, scratch = self._held_in(phases)(*values)
        return Columns(registers, least, _shared(scratch, own, device), tensor_memory)

    def extents(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The positions of each axis."""
        try:
            values = self._extents(*(sizes[name] for name in self._size_names))
        except KeyError as error:
            raise PlanError(f"{self.kernel}: the size {error.args[0]} is not given") from None
        return {axis.name: max(0, int(value)) for axis, value in zip(self.axes, values, strict=True)}

    # Compiled once

    @cached_property
    def _outputs(self) -> list[Expr]:
        each = [getattr(phase, name) for phase in self.phases for name in _FIELDS]
        return [*each, self.scratch_bytes, self.swap_bytes, self.distinct_read_bytes]

    @cached_property
    def _names(self) -> list[str]:
        """The names of all symbols, in the order of the arguments of compiled functions."""
        return sorted(names_in(self._outputs))

    @cached_property
    def _size_names(self) -> list[str]:
        return sorted({name for axis in self.axes for name in axis.extent.symbols})

    @cached_property
    def _extents(self) -> Function:
        return of_numbers(compiled(self._size_names, [axis.extent for axis in self.axes]))

    @cached_property
    def _code(self) -> CodeType:
        return compiled(self._names, self._outputs)

    def _values(self, bound: Sequence[float]) -> Sequence[float]:
        """The outputs, given the symbols' values. Planning a kernel once evaluates them once."""
        if next(self._evaluations) < BEFORE_COMPILING:
            return evaluated(dict(zip(self._names, bound, strict=True)), self._outputs)
        return self._evaluate(*bound)

    @cached_property
    def _evaluations(self) -> Iterator[int]:
        return count()

    @cached_property
    def _evaluate(self) -> Function:
        return of_numbers(self._code)

    @cached_property
    def _arrays(self) -> Function:
        return of_arrays(self._code)

    def _held_in(self, phases: tuple[str, ...] | None) -> Function:
        """The worst of some phases: registers, the fewest possible, shared bytes, tensor memory; and scratchpads."""
        key = ("held", phases)
        if key not in self.found:
            some = [phase for phase in self.phases if phases is None or phase.name in phases]
            names = ("registers_a_thread", "registers_at_least", "shared_bytes", "tensor_memory_columns")
            worst = [most(getattr(phase, name) for phase in some) for name in names]
            self.found[key] = of_arrays(compiled(self._names, [*worst, self.scratch_bytes]))
        return cast(Function, self.found[key])

    # Symbols' values

    def _bound(
        self, plan: Plan, sizes: Mapping[str, int], extents: Mapping[str, int], device: NeedsDevice
    ) -> list[float]:
        """The value of each symbol, in the order of `_names`."""
        known: dict[str, float] = {
            **sizes, **constants_for(device), "plan.warps": _warps(plan, device),
            "plan.stages": plan.stages, "plan.persistent": int(plan.resident_programs > 0), "device.warp": device.warp,
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
                known[f"split.{axis.name}"] = split = plan.splits.get(axis.name, 1)
                known[f"held.{axis.name}"] = int(extents[axis.name] <= size and split == 1)
                known[f"online.{axis.name}"] = int(axis.name in plan.online)
        for value in self.crossing:
            is_freed = bool(value.freed_by) and set(value.freed_by) <= set(plan.copies)
            home = plan.homes.get(value.label, Home.RECOMPUTE if is_freed else value.homes[0])
            known[f"shared.{value.label}"] = int(home is Home.SHARED)
            known[f"memory.{value.label}"] = int(home is Home.MEMORY)
            if value.summed:
                chunk = plan.chunks[value.summed]
                is_online = value.summed in plan.online and chunk < extents[value.summed]
                known[f"sums.{value.label}"] = sums_of_blocks(chunk, extents[value.summed]) if is_online else 0
        for scratchpad in self.scratchpads:
            known[f"memory.{scratchpad.label}"] = int(plan.homes.get(scratchpad.label) is Home.MEMORY)
            known[f"copies.{scratchpad.label}"] = int(scratchpad.label in plan.copies)
        known.update(dict.fromkeys((f"packed.{tensor}" for tensor in plan.packs), 1))
        known.update(dict.fromkeys((f"cut.{phase}" for phase in plan.launches), 1))
        return [self._value(name, known) for name in self._names]

    def _value(self, name: str, known: Mapping[str, float]) -> float:
        value = known.get(name, {"packed": 0, "cut": 0, "trips": UNKNOWN_TRIPS}.get(name.partition(".")[0]))
        if value is None:
            raise PlanError(f"{self.kernel}: the size {name} is not given")
        return value

    # Results

    def _use(
        self, plan: Plan, sizes: Mapping[str, int], extents: Mapping[str, int], device: NeedsDevice,
        values: Sequence[float],
    ) -> NeedsUse:  # fmt: skip
        columns = [values[n : -3 : len(_FIELDS)] for n in range(len(_FIELDS))]
        phases = tuple(map(PhaseQuantities, [phase.name for phase in self.phases], *columns))
        scratch, swap, distinct = values[-3:]
        threads = device.warp * device.all_warps(plan.warps, bool(plan.warp_specialized))
        worst = {name: max(column, default=0) for name, column in zip(_FIELDS, columns, strict=True)}
        allowed = device.registers_of(threads) + SPILL_ALLOWANCE / device.register_bytes
        return NeedsUse(
            phases, threads,
            register_bytes=worst["register_bytes"],
            registers_a_thread=worst["registers_a_thread"],
            spills=worst["registers_at_least"] > allowed,
            shared_bytes=_shared(scratch, worst["shared_bytes"], device),
            scratch_bytes=scratch,
            swap_bytes=swap,
            tensor_memory_columns=worst["tensor_memory_columns"],
            distinct_read_bytes=distinct,
            programs=self._programs(plan, sizes, extents),
            **{name: sum(columns[_FIELDS.index(name)]) for name in SUMS},
        )  # fmt: skip

    def _programs(self, plan: Plan, sizes: Mapping[str, int], extents: Mapping[str, int]) -> tuple[int, ...]:
        """The programs of each launch: packs and K-major copies first, then one launch, or those of a split axis."""
        along = {axis.name: -(-extents[axis.name] // plan.tiles[axis.name]) for axis in self.axes if axis.is_tile}
        packs = [place for name in plan.packs for place in self.packable.get(name, ())]
        grids = [prod(map(along.__getitem__, tiles)) * -(-extents[whole] // _PACK_ROWS) for tiles, whole in packs]
        grids += [self.contracted[name].programs(plan, sizes) for name in plan.k_major if name in self.contracted]
        grid = plan.private_copies if plan.private_copies > 1 else prod(along.values())
        split = plan.split
        if split is None:
            tiles = self.launch_axes.of(plan.launches)
            alike = len(tiles) == 1 or plan.private_copies > 1
            if alike:
                return (*grids, *(grid for _ in tiles))
            along |= {axis: -(-extents[axis] // plan.chunks[axis]) for axis in plan.parallel}
            able = self.parallel_axes.of(plan.launches)
            axes = (
                (*each, *(axis for axis in plan.parallel if axis in some))
                for each, some in zip(tiles, able, strict=True)
            )
            return (*grids, *(prod(along[axis] for axis in each) for each in axes))
        shared = self.splittable.get(split, (True,))
        return (*grids, *(grid * plan.splits[split] if shares else grid for shares in shared))


def _warps(plan: Plan, device: NeedsDevice) -> int:
    """The warps among which tiles are divided."""
    return 1 if device.is_cpu else int(device.multiplying_warps(plan.warps, bool(plan.warp_specialized)))


def _plain(column: Any) -> Any:
    """A column of numbers; what it consists of, where that is one number."""
    return column if getattr(column, "size", 1) > 1 else float(column.item() if hasattr(column, "item") else column)


def _shared(scratch: Any, own: Any, device: NeedsDevice) -> Any:
    """Triton's own memory, then scratchpads from the next multiple of 128 bytes; numbers or arrays.

    See `compiler/backends/llvm_scratchpad.py`.
    """
    if device.is_cpu:
        return scratch
    return own + (scratch > 0) * (-own % 128 + scratch + 16)
