"""The positions of an axis that each loop over it must visit: where what it accumulates or stores is not neutral."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...dialect import AccessOp, DotOp, PhaseOp, RangeOp, ReductionOp, ScanOp, TensorArgumentType
from ...facts import Facts
from ..accesses import CONTROL, has_effect, inputs_of
from ..kernel_analysis import KernelAnalysis
from ..masks.conditions import All, Any, Condition, Linear, NotNegative, narrows
from .nests import Nest, NestSchedule, in_order, operands_along, slice_for

Reach = tuple[Condition, ...]
"""Conditions of which one holds wherever a loop must go. One chunk is visited for each even if it holds nowhere."""


@dataclass
class Reaches:
    """What loops of a schedule must visit. `facts`: tell which tensors are distinct."""

    schedule: NestSchedule
    facts: Facts
    _nests: dict[tuple[Nest, str], Reach | None] = field(default_factory=dict)
    _homes: dict[tuple[SSAValue, str], Reach | None] = field(default_factory=dict)
    _readers: dict[SSAValue, list[_Reader]] | None = None
    _steady: dict[SSAValue, bool] = field(default_factory=dict)

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
        axis = op.axis.data
        if self._scans(slice_for(self.schedule, iter(operands_along(op))), axis):
            return None
        return self._joined([self.analysis.masks.of_reduction(op)], axis)

    def _of_nest(self, nest: Nest, axis: str) -> Reach | None:
        if nest.scanned or self._scans(slice_for(self.schedule, nest.roots()), axis):
            return None
        totals = (total for group in nest.online for total in group.totals)
        conditions = [self.analysis.masks.of_reduction(op) for op in (*nest.reductions, *totals)]
        conditions += [self.analysis.masks.of_store(op) for op in nest.effects]
        for value, home in nest.stores:
            needed = self._of_home(home, axis) if value is home else None
            if needed is None:
                return None
            conditions += needed
        return self._joined(conditions, axis)

    def _scans(self, items: list[Operation], axis: str) -> bool:
        return any(isinstance(item, ScanOp) and item.axis.data == axis for item in items)

    def _joined(self, conditions: list[Condition], axis: str) -> Reach | None:
        if conditions and all(narrows(one, axis) and self._is_computable(one, axis) for one in conditions):
            return tuple(dict.fromkeys(conditions))
        return None

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
            items = self.analysis.sliced(iter(roots), lambda value: self._is_at_hand(value, made))
            apart = [item for item in items if self.analysis.is_chunk_reduction(item)]
            values = [*roots, *(value for item in items if item not in apart for value in inputs_of(item))]
            values += [item.sum for item in apart if isinstance(item, DotOp)]
            for value in map(self.analysis.source, values):
                home = self.schedule.home_of(value)
                if home is not None and value not in made:
                    yield home, inside
            todo += [([*operands_along(item)], (item, *inside)) for item in apart]

    def _is_at_hand(self, value: SSAValue, made: set[SSAValue]) -> bool:
        in_registers = not self.analysis.chunks_of_value(value)
        return in_registers or (value not in made and self.schedule.home_of(value) is not None)

    # What bounds are computed from must be the same wherever a loop computes it.

    def _is_computable(self, condition: Condition, axis: str) -> bool:
        """Whether all that a condition bounds an axis by can be computed before any loop over it."""
        match condition:
            case NotNegative(total, fits):
                sums = (total, *(one for one, _ in fits)) if total.coefficient(axis) else ()
                return all(self._is_known_before(one) for one in sums)
            case All(parts) | Any(parts):
                return all(self._is_computable(part, axis) for part in parts)
        return True

    def _is_known_before(self, total: Linear) -> bool:
        return all(not self.analysis.chunks_of_value(value) and self._is_steady(value) for value, _ in total.others)

    def _is_steady(self, value: SSAValue) -> bool:
        """Whether a value can be computed at any place of a kernel: from parameters and what nothing writes."""
        value = self.analysis.source(value)
        if value not in self._steady:
            self._steady[value] = self._computes_steady(value)
        return self._steady[value]

    def _computes_steady(self, value: SSAValue) -> bool:
        op = value.owner
        if isinstance(op, Block):
            return isinstance(value, BlockArgument) and op is self.analysis.kernel.body.block
        if isinstance(op, (*CONTROL, RangeOp, ScanOp)) or op.regions or has_effect(op):
            return False
        if self.analysis.is_chunk_reduction(op) or (isinstance(op, AccessOp) and self._is_written(op)):
            return False
        return all(self._is_steady(operand) for operand in inputs_of(op))

    def _is_written(self, op: AccessOp) -> bool:
        if not isinstance(op.base.type, TensorArgumentType):
            return True
        for item in self.analysis.phase:
            for access in self.analysis.accesses(item):
                is_same = access.base is op.base or (not self.facts.distinct and access.base.type == op.base.type)
                if access.writes and is_same:
                    return True
        return False


@dataclass(frozen=True, eq=False)
class _Reader:
    """A nest that loads a home, the reductions in whose loops it does, and what is around it; None beside phases."""

    nest: Nest
    inside: tuple[ReductionOp | DotOp, ...]
    around: tuple[Operation, ...] | None
