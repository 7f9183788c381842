"""The positions of an axis that each loop over it must visit: where what it accumulates or stores is not neutral."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from xdsl.ir import Operation, SSAValue

from ...dialect import DotOp, PhaseOp, ReductionOp
from ...dialect.scans import scans_along
from ...errors import PlanError
from ...facts import Facts
from ..accesses import inputs_of
from ..kernel_analysis import KernelAnalysis
from ..masks.conditions import ALWAYS, All, Any, Condition, Holds, NotNegative, is_tested, narrows, pruned
from .nests import Nest, NestSchedule, all_items, in_order, operands_along, slice_for
from .steady import SteadyValues

Reach = tuple[Condition, ...]
"""Conditions of which one holds wherever a loop must go. One chunk is visited for each even if it holds nowhere."""


@dataclass
class Reaches:
    """What loops of a schedule must visit. `facts`: tell which tensors are distinct. `guards`: axes of which each chunk
    may be tested."""

    schedule: NestSchedule
    facts: Facts
    guards: tuple[str, ...] = ()
    _nests: dict[tuple[Nest, str], Reach | None] = field(default_factory=dict)
    _homes: dict[tuple[SSAValue, str], Reach | None] = field(default_factory=dict)
    _readers: dict[SSAValue, list[_Reader]] | None = None

    @cached_property
    def steady(self) -> SteadyValues:
        return SteadyValues(self.analysis, self.facts)

    @property
    def analysis(self) -> KernelAnalysis:
        return self.schedule.analysis

    def of_nest(self, nest: Nest, axis: str) -> Reach | None:
        """What a nest's loop over an axis must visit; None: everything."""
        key = nest, axis
        if key not in self._nests:
            self._nests[key] = None  # for a nest that reads its own home
            self._nests[key] = self._of_nest(nest, axis)
        return self._nests[key]

    def of_reduction(self, op: ReductionOp | DotOp) -> Reach | None:
        """What the loop of a reduction alone must visit."""
        axis, condition = op.axis.data, self.analysis.masks.of_reduction(op)
        if condition == ALWAYS or self._scans(slice_for(self.schedule, operands_along(op)), axis):
            return None
        return self._joined([condition], axis)

    def _of_nest(self, nest: Nest, axis: str) -> Reach | None:
        if nest.scanned or not self.analysis.mask_conditions:
            return None
        totals = (total for group in nest.online for total in group.totals)
        conditions = [self.analysis.masks.of_reduction(op) for op in (*nest.reductions, *totals)]
        conditions += [self.analysis.masks.of_store(op) for op in nest.effects]
        if ALWAYS in conditions or self._scans(slice_for(self.schedule, nest.roots()), axis):
            return None
        for value, home in nest.stores:
            needed = self._of_home(home, axis) if value is home else None
            if needed is None:
                return None
            conditions += needed
        return self._joined(conditions, axis)

    def _scans(self, items: list[Operation], axis: str) -> bool:
        return any(scans_along(item, axis) for item in items)

    def _joined(self, conditions: list[Condition], axis: str) -> Reach | None:
        used = [pruned(one, partial(self._is_used, axis)) for one in conditions]
        if used and all(narrows(one, axis) or is_tested(one) for one in used):
            return tuple(dict.fromkeys(used))
        return None

    def _is_used(self, axis: str, condition: Holds | NotNegative) -> bool:
        """Whether a comparison can bound the loops over an axis, or a truth value be tested for each chunk.

        Both must be the same wherever a loop computes them.
        """
        if isinstance(condition, Holds):
            return axis in self.guards and self.steady.is_cheap(condition.value, axis)
        sums = (condition.sum, *(one for one, _ in condition.fits))
        if not condition.sum.coefficient(axis) or any(one.has(axis) for one in sums):
            return False
        return all(self.steady.is_known(value) for one in sums for value, _ in one.others)

    # Homes: every loop that loads a home must find what it visits there.

    def _of_home(self, home: SSAValue, axis: str) -> Reach | None:
        key = home, axis
        if key not in self._homes:
            self._homes[key] = None
            self._homes[key] = self._read_of(home, axis)
        return self._homes[key]

    def _read_of(self, home: SSAValue, axis: str) -> Reach | None:
        around = self._around(home)
        if around is None or home in self.schedule.shares.values():
            return None
        found: dict[Condition, None] = {}
        for reader in self._all_readers().get(home, ()):
            reach = self._of_reader(reader, axis) if reader.around == around else None
            if reach is None:
                return None
            found.update(dict.fromkeys(reach))
        return tuple(found) if all(self._is_same_everywhere(one, axis) for one in found) else None

    def _is_same_everywhere(self, condition: Condition, axis: str) -> bool:
        """Whether the bounds of an axis do not depend on which chunk of another axis is at hand."""
        match condition:
            case NotNegative(total):
                return not any(name in self.analysis.chunked for name, _ in total.positions if name != axis)
            case All(parts) | Any(parts):
                return all(self._is_same_everywhere(part, axis) for part in parts)
        return True

    def _around(self, home: SSAValue) -> tuple[Operation, ...] | None:
        phase = self.analysis.phase_of(home)
        return None if phase is None else self.analysis.structures[phase]

    def _of_reader(self, reader: _Reader, axis: str) -> Reach | None:
        for op in reader.inside:
            if op.axis.data == axis:
                return self.of_reduction(op)
        return self.of_nest(reader.nest, axis) if axis in reader.nest.axes else None

    def _all_readers(self) -> dict[SSAValue, list[_Reader]]:
        if self._readers is None:
            self._readers = {}
            for owner, nest, around in in_order(self.schedule):
                is_phase = isinstance(owner, PhaseOp)
                for home, inside in self._homes_in(nest):
                    reader = _Reader(nest, inside, around if is_phase else None)
                    self._readers.setdefault(home, []).append(reader)
        return self._readers

    def _homes_in(self, nest: Nest) -> Iterator[tuple[SSAValue, tuple[ReductionOp | DotOp, ...]]]:
        """Every home that a nest loads, with the reductions in whose own loops it does so, innermost first."""
        made = {value for value, home in nest.stores if value is home}
        todo: list[tuple[list[SSAValue], tuple[ReductionOp | DotOp, ...]]] = [([*nest.roots()], ())]
        while todo:
            roots, inside = todo.pop()
            items = self.analysis.in_chunks(roots, lambda value: value not in made and self._has_home(value))
            apart = [item for item in items if self.analysis.is_chunk_reduction(item)]
            values = [*roots, *(value for item in items if item not in apart for value in inputs_of(item))]
            values += [item.sum for item in apart if isinstance(item, DotOp)]
            for value in map(self.analysis.source, values):
                home = self.schedule.home_of(value)
                if home is not None and value not in made:
                    yield home, inside
            todo += [([*operands_along(item)], (item, *inside)) for item in apart]

    def _has_home(self, value: SSAValue) -> bool:
        return self.schedule.home_of(value) is not None


@dataclass(frozen=True, eq=False)
class _Reader:
    """A nest that loads a home, the reductions in whose loops it does, and what is around it; None beside phases."""

    nest: Nest
    inside: tuple[ReductionOp | DotOp, ...]
    around: tuple[Operation, ...] | None


def check_guards(reaches: Reaches) -> None:
    """Raise `PlanError` for a guarded axis of which no mask can be tested chunk by chunk."""
    schedule, axes = reaches.schedule, reaches.analysis.axes
    for name in reaches.guards:
        axis = axes.get(name)
        if axis is None or axis.is_tile:
            raise PlanError(f"the plan guards {name}, which is no whole axis of the kernel", about=name)
        if axis.is_chunked and not any(map(is_tested, _all_conditions(reaches, schedule, name))):
            message = f"the plan guards {name}: no loop over it has a mask that can be tested for each chunk"
            raise PlanError(message, about=name)


def _all_conditions(reaches: Reaches, schedule: NestSchedule, axis: str) -> Iterator[Condition]:
    for _, nest, _ in in_order(schedule):
        if axis in nest.axes:
            yield from reaches.of_nest(nest, axis) or ()
        for item in all_items(schedule, nest):
            if reaches.analysis.is_chunk_reduction(item) and item.axis.data == axis:
                yield from reaches.of_reduction(item) or ()
