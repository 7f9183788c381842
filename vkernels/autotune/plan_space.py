"""The search space of a kernel's plans within the limits of a slice: item by item what a plan decides, as parameters.

What does not fit by the model of needs is no point of it, and so is never compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from math import ceil, isfinite, prod

import numpy as np
import numpy.typing as npt

from vkernels.compiler.default_session import default_session
from vkernels.compiler.protocols import Constant
from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.budget import within
from vkernels.ir.errors import Error, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import NO_PIN, with_pin
from vkernels.ir.plan import Plan
from vkernels.ir.planning.bounds import power_above
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.fits import why_not
from vkernels.ir.planning.judge_plan import SLOWER
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.plan_families import PlanFamily, enumerate_families
from vkernels.ir.planning.plan_grid import plan_grid
from vkernels.ir.planning.space import PlanSearchSpace as Choices
from vkernels.ir.planning.space import StructuralChoices, read_space

from .arguments import built
from .drive import Stop
from .plan_values import Decisions
from .space import Constraint, Point, SearchSpace, Value
from .tunables import CONSTANT, tunable_values

MAX_FAMILIES = 100
"""Kinds of plans that are looked at, at most: beyond, the model's best are there, and reading them takes seconds."""
MAX_POINTS = 20_000
"""Plans in a space, at most; of more, those of the least modelled time."""
POINTS_PER_EVALUATION, EVALUATIONS_PER_SECOND, MIN_POINTS = 64, 5, 512
"""Plans in a space for each evaluation of a search, at most; evaluations that a second is worth; and plans, at least,
however few: reading 20 000 takes as long as measuring some."""
MAX_SEEDS = 16
"""Kinds of plans of which the best is a seed, at most."""


@dataclass(frozen=True)
class PlanCounts:
    """Plans: `before`, all combinations of the values of what is decided, in the kinds of plans looked at, and
    somebody's own; `fitting`, those of them that fit by the model of needs; `after`, those that are in the space, which
    leaves out what the model of time takes to be far from the best. `kinds`: looked at; `all_kinds`: those were all."""

    before: int
    fitting: int
    after: int
    kinds: int
    all_kinds: bool


class PlannedSpace(SearchSpace):
    """A space of listed points whose times are modelled: models that learn are told those too."""

    def __init__(self, parameters: Mapping[str, Sequence[Value]], seconds: Mapping[Point, float]) -> None:
        super().__init__(parameters, [Constraint(tuple(parameters), lambda *values: values in seconds)])
        self.seconds = seconds
        self.listed = tuple(seconds)
        self._members = frozenset(seconds)

    def encode(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        """As other spaces', with a column more: the logarithm of the modelled seconds."""
        modelled = np.log([self.seconds.get(point, 1.0) for point in points]).astype(np.float32)
        return np.column_stack([super().encode(points), modelled])


@dataclass(frozen=True)
class KernelVariant:
    """A kernel for certain values of its tunable constants: what there is to decide about its plans."""

    constants: Mapping[str, Constant]
    choices: Choices
    decisions: Decisions


@dataclass(frozen=True)
class PlanSpace:
    """The plans of a task's kernel that fit a slice, as points of `space`.

    `seeds`: points to begin with, the plan that a call without tuning gets first. `sizes`: how many plans there were
    before any was left out, and after. `shared`: what all plans decide alike, which is no parameter. `given`: plans
    that are somebody's own, to be taken as they are.
    """

    task: Task
    limits: Limits
    space: PlannedSpace
    seeds: tuple[Point, ...]
    sizes: PlanCounts
    versions: tuple[KernelVariant, ...]
    shared: Mapping[str, Value]
    given: Mapping[Point, Plan]

    @property
    def default(self) -> Point:
        """The plan that a call without tuning gets, with the first value of each tunable constant."""
        return self.seeds[0]

    def plan(self, point: Point) -> Plan:
        """The plan of a point of the space."""
        if point in self.given:
            return self.given[point]
        version = self._version(point)
        return with_pin(version.decisions.plan(self._values(point)), version.choices.pin)

    def constants(self, point: Point) -> dict[str, Constant]:
        """The values of the tunable constants."""
        return dict(self._version(point).constants)

    def seconds(self, point: Point) -> float:
        """Modelled."""
        return self.space.seconds[point]

    def point(self, plan: Plan, constants: Mapping[str, Constant] | None = None) -> Point | None:
        """The point of a plan, with the first value of each tunable constant unless given; None where it has none.

        A chunk that is longer than its axis is the one that holds it.
        """
        version = self._with(self.versions[0].constants if constants is None else constants)
        if version is None or sum(programs > 1 for programs in plan.splits.values()) > 1:
            return None
        for some in (plan, _clipped(plan, version.choices)):
            values = {**version.decisions.values(some), **_constants(version)}
            point = tuple(values.get(name) for name in self.space.names)
            if point in self.space and all(values.get(name) == value for name, value in self.shared.items()):
                return point
        return None

    def _values(self, point: Point) -> dict[str, Value]:
        return {**self.shared, **self.space.named(point)}

    def _version(self, point: Point) -> KernelVariant:
        values = self._values(point)
        return next(v for v in self.versions if all(values.get(n) == value for n, value in _constants(v).items()))

    def _with(self, constants: Mapping[str, Constant]) -> KernelVariant | None:
        return next((version for version in self.versions if dict(version.constants) == dict(constants)), None)


def enough_points(stop: Stop) -> int:
    """Plans that a space needs for a search of this length: the best modelled, far more than it can measure."""
    evaluations = [stop.evaluations, None if stop.seconds is None else ceil(EVALUATIONS_PER_SECOND * stop.seconds)]
    fewest = min((each for each in evaluations if each is not None), default=MAX_POINTS)
    return min(MAX_POINTS, max(MIN_POINTS, POINTS_PER_EVALUATION * fewest))


def read(task: Task, limits: Limits, most: int = MAX_POINTS) -> PlanSpace:
    """The space of the plans of a task within limits. The same for the same task and limits. `most`: plans in it, those
    of the least modelled time.

    It has the plan that a call without tuning gets, and the plain one. Raises the author's mistakes, and `PlanError`
    where the kernel's needs cannot be read, so that there is one plan alone.
    """
    kernel = kernel_of(task)
    allowed = within(limits, kernel.budget)
    combinations = tunable_values(kernel, task)
    return _joined(
        task, allowed, [_read(task, allowed, constants, len(combinations), most) for constants in combinations]
    )


@dataclass(frozen=True)
class _Reading:
    """The plans of one version. `rows`: plans with their modelled seconds; `must`: those that are to be there as they
    are; `liked`: the best of the best kinds, the best first. Numbers are those of `PlanCounts`."""

    version: KernelVariant
    rows: list[tuple[Plan, float]]
    must: list[tuple[Plan, float]]
    liked: list[Plan]
    before: int
    fitting: int
    kinds: int
    all_kinds: bool


def _read(task: Task, limits: Limits, constants: Mapping[str, Constant], versions: int, most: int) -> _Reading:
    task = replace(task, constants={**task.constants, **constants})
    kernel, op = kernel_of(task), built(task)
    try:
        needs = annotate_needs(op)
    except Error as error:
        raise PlanError(f"{task.name}: its needs cannot be read, so that there is one plan alone: {error}") from None
    choices = read_space(op, task.shape, limits, needs, strides_of(task), kernel.pin)
    looked, all_kinds = _looked(choices, max(8, MAX_FAMILIES // versions))
    if not any(looked.values()):
        choices = replace(choices, lean=True)
        looked, all_kinds = _looked(choices, max(8, MAX_FAMILIES // versions))
    kinds = [kind for kind in looked.values() if kind is not None]
    rows = _distinct(choices, _rows(choices, kinds, max(64, most // versions)))
    return _Reading(
        KernelVariant(constants, choices, Decisions.of(choices)),
        rows,
        [(plan, _modelled(choices, plan)) for plan in _own_plans(task, limits)],
        _liked(rows),
        sum(_plans_of(choices, move) for move in looked),
        sum(len(kind.seconds) for kind in kinds),
        len(kinds),
        all_kinds,
    )


def _looked(choices: Choices, most: int) -> tuple[dict[StructuralChoices, PlanFamily | None], bool]:
    """Kinds by their moves, with those of which no plan fits; whether those are all."""
    looked: dict[StructuralChoices, PlanFamily | None] = {}
    fitting = 0
    for move, kind in enumerate_families(choices):
        if fitting >= most:
            return looked, False
        looked[move] = kind
        fitting += kind is not None
    return looked, True


def _plans_of(choices: Choices, move: StructuralChoices) -> int:
    """How many plans of a kind there are, whether or not they fit."""
    try:
        return prod(plan_grid(choices, move).shape)
    except PlanError:
        return 0


def _own_plans(task: Task, limits: Limits) -> list[Plan]:
    """What a call without tuning gets, what would be chosen, and the plain plan."""
    kernel, op = kernel_of(task), built(task)
    plans = default_session().plans_for(kernel, op, task.shape, task.dtypes, limits, strides_of(task))
    own, plain = plans.author_plan(), default_plan(op, task.shape, limits)
    chosen = next(plans.ranked()).plan
    plain = plain if kernel.pin is None else with_pin(plain, kernel.pin)
    return [*([] if own is None else [own]), chosen, plain]


def _modelled(choices: Choices, plan: Plan) -> float:
    """Seconds; those of a second where the model has none."""
    try:
        seconds = float(model_plan(choices, plan).seconds)
    except Error:
        return 1.0
    return seconds if isfinite(seconds) and seconds > 0 else 1.0


def _rows(choices: Choices, kinds: Sequence[PlanFamily], most: int) -> list[tuple[Plan, float]]:
    """The plans that fit and are not far from the best, as modelled, with their seconds; at most so many, those of the
    least modelled time."""
    if not kinds:
        return []
    least = min(kind.least for kind in kinds)
    every = np.concatenate([kind.seconds for kind in kinds])
    bound = min(SLOWER * least, float(np.partition(every, most)[most]) if len(every) > most else np.inf)
    found: list[tuple[Plan, float]] = []
    device = NeedsDevice.of(choices.limits)
    for kind in kinds:
        chosen = np.flatnonzero(kind.seconds <= bound)
        if not len(chosen):
            continue
        plans = kind.batch.only(kind.seconds <= bound).plans()
        registers = kind.taken.rows(chosen.tolist()).registers
        uses = choices.needs.evaluate_many(plans, choices.sizes, device)
        may_spill = choices.limits.warp == 1 and choices.pin != NO_PIN
        for plan, use, seconds, taken in zip(plans, uses, kind.seconds[chosen], registers, strict=True):
            if why_not(use, choices.limits, 0.0 if may_spill else float(taken)) is None:
                found.append((plan, float(seconds)))
    return found


def _distinct(choices: Choices, rows: list[tuple[Plan, float]]) -> list[tuple[Plan, float]]:
    """Plans of which no two give the same code: on a CPU a scratchpad in memory is one that is shared."""
    pads = {scratchpad.label for scratchpad in choices.needs.scratchpads}
    if choices.limits.warp > 1 or not pads:
        return rows
    found: dict[str, tuple[Plan, float]] = {}
    for plan, seconds in rows:
        homes = {label: home for label, home in plan.homes.items() if label not in pads}
        key = repr(replace(plan, homes=homes))
        if key not in found or seconds < found[key][1]:
            found[key] = plan, seconds
    return list(found.values())


def _liked(rows: Sequence[tuple[Plan, float]]) -> list[Plan]:
    """The best plan of each of the best kinds: plans that differ in more than sizes."""
    best: dict[object, Plan] = {}
    for plan, _ in sorted(rows, key=lambda row: row[1]):
        kind = replace(plan, tiles={}, chunks={}, splits=dict.fromkeys(plan.splits, 1), warps=1, stages=1)
        best.setdefault(repr(kind), plan)
        if len(best) == MAX_SEEDS:
            break
    return list(best.values())


def _joined(task: Task, limits: Limits, readings: Sequence[_Reading]) -> PlanSpace:
    """One space of all versions."""
    rows: list[tuple[dict[str, Value], float]] = []
    given: list[tuple[dict[str, Value], Plan]] = []
    liked: list[list[dict[str, Value]]] = []
    fitting: list[dict[str, Value]] = []
    for reading in readings:
        values = partial(_values_in, reading.version)
        own = [(values(plan), plan) for plan, _ in reading.must]
        given += own
        *first, plain = (each for each, _ in own)
        liked.append([*first, *(values(plan) for plan in reading.liked), plain])
        rest = [(values(plan), seconds) for plan, seconds in reading.rows]
        fitting += [each for each, _ in rest]
        rows += [*((each, seconds) for (each, _), (_, seconds) in zip(own, reading.must, strict=True)), *rest]
    names = list(dict.fromkeys(name for values, _ in rows for name in values))
    every = {name: _in_order({values.get(name) for values, _ in rows}) for name in names}
    shared = {name: values[0] for name, values in every.items() if len(values) == 1}
    parameters = {name: values for name, values in every.items() if len(values) > 1}

    def point(values: Mapping[str, Value]) -> Point:
        return tuple(values.get(name) for name in parameters)

    seconds = {point(values): modelled for values, modelled in reversed(rows)}
    in_turn = [point(values) for some in zip_longest(*liked) for values in some if values is not None]
    found = {point(values) for values in fitting}
    counts = PlanCounts(
        before=sum(reading.before for reading in readings) + len(seconds.keys() - found),
        fitting=sum(reading.fitting for reading in readings),
        after=len(seconds),
        kinds=sum(reading.kinds for reading in readings),
        all_kinds=all(reading.all_kinds for reading in readings),
    )
    return PlanSpace(
        task, limits, PlannedSpace(parameters, dict(reversed(seconds.items()))), tuple(dict.fromkeys(in_turn)), counts,
        tuple(reading.version for reading in readings), shared,
        {point(values): plan for values, plan in reversed(given)},
    )  # fmt: skip


def _values_in(version: KernelVariant, plan: Plan) -> dict[str, Value]:
    return {**_constants(version), **version.decisions.values(plan)}


def _constants(version: KernelVariant) -> dict[str, Value]:
    return {CONSTANT + name: value for name, value in version.constants.items()}


def _clipped(plan: Plan, choices: Choices) -> Plan:
    """The same plan with the chunks that hold an axis as long as this space has them."""
    extents = {axis: max(1, choices.extents[axis]) for axis in plan.chunks if axis in choices.wholes}
    on_gpu = choices.limits.warp > 1
    held = {axis: power_above(extent) if on_gpu else extent for axis, extent in extents.items()}
    return replace(
        plan,
        chunks={
            axis: held[axis] if chunk >= extents.get(axis, chunk + 1) else chunk for axis, chunk in plan.chunks.items()
        },
    )


def _in_order(values: Iterable[Value]) -> list[Value]:
    """Numbers by size, texts by name; nothing first."""
    return sorted(
        values,
        key=lambda value: (
            value is not None,
            isinstance(value, str),
            str(value) if isinstance(value, str) else value or 0,
        ),
    )
