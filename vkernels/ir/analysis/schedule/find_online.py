"""Groups of a maximum and sums that are linear in the exponentials relative to it, which one loop can compute.

The sum of exp(x - m) * w over an axis, where m is the maximum of x along it, is exp(b - m) times the sum of
exp(x - b) * w for any number b. So a loop that does not know m yet sums relative to a base, and corrects the sums when
it moves the base. That holds for every sum along the axis into which the exponentials enter linearly.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from ...dialect import DotOp, MaxOp, SumOp
from ...errors import PlanError
from ...facts import Facts
from ...locations import place_of
from ...plan import Plan
from ..accesses import has_effect, inputs_of
from ..kernel_analysis import KernelAnalysis
from .aliases import UnchangedValues
from .linear import Linear, LinearReader


@dataclass(frozen=True, eq=False)
class Online:
    """`totals` are linear in exponentials of `differences`, the operand of `maximum` minus its result.

    `exponential`: one of them; all are of one kind. `path`: the operations from the differences to the operands of the
    totals, in program order. `inputs`: the other values that the path and the totals use. `forms`: for each total, how
    its operand depends on the exponentials. `homed`: dots whose results have axes that are processed in chunks too:
    they are accumulated in their homes, in loops over these axes inside the loop of the group.
    """

    maximum: MaxOp
    exponential: Operation
    differences: frozenset[Operation]
    totals: tuple[SumOp | DotOp, ...]
    forms: tuple[Linear, ...]
    path: tuple[Operation, ...]
    inputs: tuple[SSAValue, ...]
    homed: frozenset[SumOp | DotOp] = frozenset()

    @property
    def is_guarded(self) -> bool:
        """Whether exponentials are 0, not NaN, where the maximum is -inf."""
        return self.forms[0].is_guarded

    @property
    def largest(self) -> float:
        """The largest finite number of the narrowest elements that the exponentials are rounded to."""
        return min(form.largest for form in self.forms)


def find_online(analysis: KernelAnalysis, plan: Plan, facts: Facts, homes: Container[SSAValue] = ()) -> list[Online]:
    """Every group along the axes that the plan names, except held axes, which need none. `homes`: values with homes.

    Raises `PlanError` where an axis is not a whole axis, is split, or has no group.
    """
    found: list[Online] = []
    for name in plan.online:
        axis = analysis.axes.get(name)
        if axis is None or axis.is_tile:
            raise PlanError(f"the plan goes online along {name}, which is no whole axis of the kernel", about=name)
        if axis.programs > 1:
            raise PlanError(
                f"axis {name} is split over programs: a maximum and a sum along it cannot go online", about=name
            )
        if not axis.is_chunked:
            continue
        refused: list[str] = []
        groups = groups_along(analysis, name, facts, refused, homes)
        if not groups:
            why = "no sum of exp(x - m) along it follows m, the maximum of x"
            raise PlanError(f"the plan goes online along {name}: {'; '.join(refused) or why}", about=name)
        found += groups
    return found


def check_launches(groups: Sequence[Online], launch_of: Callable[[Operation], int | None]) -> None:
    """Raise `PlanError` where a launch begins between a maximum and what goes online with it."""
    for group in groups:
        for total in group.totals:
            if launch_of(group.maximum) != launch_of(total):
                name, first = (each.results[0].name_hint or "value" for each in (total, group.maximum))
                raise PlanError(f"{name} goes online with {first}: no launch begins between them", about=name)


def check_homes(analysis: KernelAnalysis, groups: list[Online], home_of: Callable[[SSAValue], SSAValue | None]) -> None:
    """Raise `PlanError` where a loop of a group would read a home before it is written."""
    for group in groups:
        todo, seen = [*group.inputs], set[SSAValue]()
        while todo:
            value = analysis.source(todo.pop())
            if value in seen or not isinstance(value.owner, Operation):
                continue
            seen.add(value)
            item = analysis.item_of(value.owner)
            if home_of(value) is not None and analysis.position[item] > analysis.position[group.maximum]:
                raise PlanError(
                    f"the plan goes online along {group.maximum.axis.data}: {value.name_hint or 'a value'} is computed"
                    " after the maximum, but in the same loop, so it cannot have a home",
                    place_of(item),
                )
            todo += inputs_of(item)


def groups_along(
    analysis: KernelAnalysis,
    axis: str,
    facts: Facts,
    refused: list[str] | None = None,
    homes: Container[SSAValue] = (),
) -> list[Online]:
    """Every group along a whole axis that is processed in chunks. `refused`: is given why sums of exponentials are in
    none. `homes`: values with homes: dots whose results are processed in chunks can be accumulated there."""
    refused = [] if refused is None else refused
    unchanged = UnchangedValues(analysis, facts)
    reader = LinearReader(analysis, axis, unchanged)
    members: dict[Any, list[tuple[SumOp | DotOp, Linear]]] = {}
    ready: dict[MaxOp, _Readiness] = {}
    for op in analysis.phase:
        if not isinstance(op, SumOp | DotOp) or op.axis.data != axis or not _can_accumulate(analysis, op, homes):
            continue
        form = reader.read_total(op)
        if form is None or any(analysis.chunks(each) != {axis} for each in form.path):
            continue
        name = op.results[0].name_hint or "a sum"
        check = ready.setdefault(form.maximum, _Readiness(analysis, form.maximum, unchanged))
        if not _is_beside(analysis, form.maximum, [op, *form.path]):
            refused.append(f"{name} is in another loop or conditional than the maximum")
        elif not all(map(check.is_ready, _inputs(reader, op, form))):
            refused.append(f"{name} multiplies or hides exponentials by what depends on the maximum or comes after it")
        else:
            members.setdefault(form.kind, []).append((op, form))
    return [_group(reader, found) for found in members.values()]


def _can_accumulate(analysis: KernelAnalysis, op: SumOp | DotOp, homes: Container[SSAValue]) -> bool:
    """Whether a loop over the axis that is summed can carry the sum, or accumulate it in its home."""
    return analysis.chunks(op) == {op.axis.data} or (isinstance(op, DotOp) and op.result in homes)


def _group(reader: LinearReader, found: list[tuple[SumOp | DotOp, Linear]]) -> Online:
    forms = tuple(form for _, form in found)
    path = sorted({op for form in forms for op in form.path}, key=reader.analysis.position.__getitem__)
    inputs = dict.fromkeys(value for op, form in found for value in _inputs(reader, op, form))
    differences = frozenset[Operation]().union(*(form.differences for form in forms))
    totals = tuple(op for op, _ in found)
    homed = frozenset(op for op in totals if reader.analysis.chunks_of_value(op.results[0]))
    return Online(forms[0].maximum, forms[0].exponential, differences, totals, forms, tuple(path), tuple(inputs), homed)


def _inputs(reader: LinearReader, op: SumOp | DotOp, form: Linear) -> list[SSAValue]:
    """The values besides the exponentials that a total needs."""
    return [*form.inputs, op.sum] if isinstance(op, DotOp) and not reader.is_zero(op.sum) else list(form.inputs)


def _is_beside(analysis: KernelAnalysis, maximum: MaxOp, ops: list[Operation]) -> bool:
    """Whether operations run as often as the maximum: their phases are in the same block, in no loop of their own."""
    block = analysis.phase[maximum].parent
    return all(op in analysis.phase and analysis.phase[op].parent is block for op in ops)


class _Readiness:
    """Tells which values a loop can compute that runs in the phase of a maximum, although they are used after it.

    They must not depend on the maximum, nor on what is complete only in that phase or after it. What such values load
    in chunks is checked when the loops are scheduled.
    """

    def __init__(self, analysis: KernelAnalysis, maximum: MaxOp, unchanged: UnchangedValues):
        self.analysis, self.maximum, self.unchanged = analysis, maximum, unchanged
        self.phase = analysis.phase[maximum]
        self.start = analysis.position[self.phase]
        self.known: dict[Operation, bool] = {}

    def is_ready(self, value: SSAValue) -> bool:
        owner = self.analysis.source(value).owner
        if not isinstance(owner, Operation):
            return True  # a parameter, or carried by a loop around all of it
        item = self.analysis.item_of(owner)
        if item not in self.known:
            self.known[item] = self._is_computable(item) and all(map(self.is_ready, inputs_of(item)))
        return self.known[item]

    def _is_computable(self, item: Operation) -> bool:
        analysis = self.analysis
        phase = analysis.phase.get(item)
        if phase is None:  # beside phases: scalar work, or a loop or conditional around phases
            return not analysis.is_structural(item) or analysis.position[item] < self.start
        if analysis.position[phase] < self.start:
            return True
        chunks = analysis.chunks(item)
        if has_effect(item) or (analysis.is_chunk_reduction(item) and chunks == {item.axis.data}):
            return False
        return bool(chunks) or phase is self.phase or self.unchanged.is_unchanged(item)
