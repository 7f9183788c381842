"""The search space of a kernel's plans within the limits of a slice: each decision of a plan is a parameter.

Plans that do not fit by the model of needs are left out, and so are never compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from vkernels.ir.errors import Error, OptionError, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import with_pin
from vkernels.ir.plan import Plan, StructuralChoices
from vkernels.ir.planning.bounds import power_above
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.find_families import enumerate_families
from vkernels.ir.planning.fits import why_inapplicable, why_not
from vkernels.ir.planning.judge_plan import SLOWER, why_refused
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.plan_families import PlanFamily
from vkernels.ir.planning.plan_grid import plan_grid
from vkernels.ir.planning.space import PlanSearchSpace as Choices
from vkernels.ir.planning.space import read_space

from .arguments import built
from .drive import Stop
from .plan_values import CONSTANT, Decisions, tunable_values
from .space import Constraint, Point, SearchSpace, Value

MAX_FAMILIES = 100
"""Maximal number of plan families to enumerate: the best by the model come first, and reading them takes seconds."""
MAX_POINTS = 20_000
"""Maximal number of plans in a space; those of the least modelled time are kept."""
POINTS_PER_EVALUATION, EVALUATIONS_PER_SECOND, MIN_POINTS = 64, 5, 512
"""Maximal number of plans per evaluation of a search, evaluations per second of its time limit, and minimal number of
plans: reading 20 000 takes as long as measuring some."""
MAX_SEEDS = 16
"""Maximal number of families whose best plan is a seed."""


@dataclass(frozen=True)
class PlanCounts:
    """Numbers of plans.

    `before`: all combinations of values in the enumerated families, and given plans; `fitting`: those that fit by the
    model of needs; `after`: those in the space, without plans modelled to be far from the best. `kinds`: enumerated
    families; `all_kinds`: these were all.
    """

    before: int
    fitting: int
    after: int
    kinds: int
    all_kinds: bool


class PlannedSpace(SearchSpace):
    """A space of listed points with modelled times, which surrogate models get as an input."""

    def __init__(self, parameters: Mapping[str, Sequence[Value]], seconds: Mapping[Point, float]) -> None:
        listed = Constraint(tuple(parameters), lambda *values: values in seconds)
        super().__init__(parameters, [listed] if parameters else [])  # where all is decided, there is one point
        self.seconds = seconds
        self.listed = tuple(seconds)
        self._members = frozenset(seconds)

    def encode(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        """As for other spaces, with a further column: the logarithm of the modelled seconds."""
        modelled = np.log([self.seconds.get(point, 1.0) for point in points]).astype(np.float32)
        return np.column_stack([super().encode(points), modelled])


@dataclass(frozen=True)
class KernelVariant:
    """A kernel with certain values of its tunable constants, and the decisions about its plans."""

    constants: Mapping[str, Constant]
    choices: Choices
    decisions: Decisions

    @property
    def parameters(self) -> dict[str, Value]:
        """The constants as parameters of a search space."""
        return {CONSTANT + name: value for name, value in self.constants.items()}

    def values(self, plan: Plan) -> dict[str, Value]:
        """A plan as values of the parameters."""
        return {**self.parameters, **self.decisions.values(plan)}


@dataclass(frozen=True)
class PlanSpace:
    """The plans of a task's kernel that fit a slice, as points of `space`.

    `seeds`: points to begin with, first the plan that runs without tuning. `sizes`: numbers of plans before and after
    pruning. `shared`: decisions that are equal in all plans, and no parameters. `given`: plans to take unchanged.
    `default_may_win`: false if constraints exclude the default plan, which is then only a reference.
    """

    task: Task
    limits: Limits
    space: PlannedSpace
    seeds: tuple[Point, ...]
    sizes: PlanCounts
    versions: tuple[KernelVariant, ...]
    shared: Mapping[str, Value]
    given: Mapping[Point, Plan]
    default_may_win: bool = True

    @property
    def default(self) -> Point:
        """The plan that runs without tuning, with the first value of each tunable constant."""
        return self.seeds[0]

    def plan(self, point: Point) -> Plan:
        """The plan of a point."""
        if point in self.given:
            return self.given[point]
        version = self.variant(point)
        return with_pin(version.decisions.plan(self._values(point)), version.choices.pin)

    def constants(self, point: Point) -> dict[str, Constant]:
        """The values of the tunable constants."""
        return dict(self.variant(point).constants)

    def seconds(self, point: Point) -> float:
        """Modelled seconds."""
        return self.space.seconds[point]

    def point(self, plan: Plan, constants: Mapping[str, Constant] | None = None) -> Point | None:
        """The point of a plan; None if the space lacks it. `constants`: the first values by default.

        A chunk longer than its axis is the one that holds the whole axis.
        """
        wanted = dict(self.versions[0].constants if constants is None else constants)
        version = next((version for version in self.versions if dict(version.constants) == wanted), None)
        if version is None or sum(programs > 1 for programs in plan.splits.values()) > 1:
            return None
        for some in (plan, _clipped(plan, version.choices)):
            values = version.values(some)
            point = tuple(values.get(name) for name in self.space.names)
            if point in self.space and all(values.get(name) == value for name, value in self.shared.items()):
                return point
        return None

    def _values(self, point: Point) -> dict[str, Value]:
        return {**self.shared, **self.space.named(point)}

    def variant(self, point: Point) -> KernelVariant:
        """The kernel with the tunable constants of a point."""
        values = self._values(point)
        return next(v for v in self.versions if all(values.get(n) == value for n, value in v.parameters.items()))


def enough_points(stop: Stop) -> int:
    """A sufficient number of plans for a search of this length: many more than it can measure."""
    evaluations = [stop.evaluations, None if stop.seconds is None else ceil(EVALUATIONS_PER_SECOND * stop.seconds)]
    fewest = min((each for each in evaluations if each is not None), default=MAX_POINTS)
    return min(MAX_POINTS, max(MIN_POINTS, POINTS_PER_EVALUATION * fewest))


EarlierPlans = Callable[[Mapping[str, Constant]], Sequence[Plan]]
Fits = Callable[[Plan, Mapping[str, Constant]], bool]


def read(
    task: Task,
    limits: Limits,
    most: int = MAX_POINTS,
    earlier: EarlierPlans = lambda constants: (),
    fits: Fits = lambda plan, constants: True,
) -> PlanSpace:
    """The space of a task's plans within limits, which is deterministic.

    `most`: maximal number of plans. The space also includes the plan that runs without tuning, the default plan, and
    the `earlier` plans of each combination of the tunable constants as far as they fit. `fits`: whether the code of one
    of the plans that calls try fits; the first that does runs without tuning. Raises the author's mistakes, and
    `PlanError` if the kernel's needs are unknown, so that there is only one plan.
    """
    kernel = kernel_of(task)
    allowed = within(limits, kernel.budget)
    combinations = tunable_values(kernel, task)
    readings = [
        _read(task, allowed, constants, len(combinations), most, earlier(constants), fits) for constants in combinations
    ]
    return _joined(task, allowed, readings)


@dataclass(frozen=True)
class _Reading:
    """The plans of one variant, with their modelled seconds.

    `must`: plans to include unchanged, and so are `earlier` ones; `liked`: the best plans of the best families.
    `counts`: without `after`.
    """

    version: KernelVariant
    rows: list[tuple[Plan, float]]
    must: list[tuple[Plan, float]]
    earlier: list[tuple[Plan, float]]
    liked: list[Plan]
    counts: PlanCounts


def _read(
    task: Task, limits: Limits, constants: Mapping[str, Constant], versions: int, most: int, earlier: Sequence[Plan],
    fits: Fits,
) -> _Reading:  # fmt: skip
    task = replace(task, constants={**task.constants, **constants})
    kernel, op = kernel_of(task), built(task)
    if kernel.deterministic:
        raise OptionError(
            f"{task.name} is deterministic, so its calls take no tuned plans: tune it without that option, and pin the"
            " best plan"
        )
    try:
        needs = annotate_needs(op)
    except Error as error:
        raise PlanError(f"{task.name}: its needs are unknown, so that there is only one plan: {error}") from None
    choices = read_space(op, task.shape, limits, needs, strides_of(task), kernel.pin)
    looked, all_kinds = _looked(choices, max(8, MAX_FAMILIES // versions))
    if not any(looked.values()):
        choices = replace(choices, lean=True)
        looked, all_kinds = _looked(choices, max(8, MAX_FAMILIES // versions))
    kinds = [kind for kind in looked.values() if kind is not None]
    rows = _distinct(choices, _rows(choices, kinds, max(64, most // versions)))
    plans = default_session().plans_for(kernel, op, task.shape, task.dtypes, limits, strides_of(task))
    own, plain = plans.author_plan(), default_plan(op, task.shape, limits)
    plain = plain if kernel.pin is None else with_pin(plain, kernel.pin)
    called = own if own is not None else next((c.plan for c in plans.ranked() if fits(c.plan, constants)), plain)
    must = [called, next(plans.ranked()).plan, plain]
    return _Reading(
        KernelVariant(constants, choices, Decisions.of(choices)),
        rows,
        [(plan, _modelled(choices, plan)) for plan in must],
        [(plan, _modelled(choices, plan)) for plan in earlier if why_refused(choices, plan) is None],
        _liked(rows),
        PlanCounts(
            sum(_plans_of(choices, move) for move in looked), sum(len(kind.seconds) for kind in kinds), 0, len(kinds),
            all_kinds,
        ),
    )  # fmt: skip


def _looked(choices: Choices, most: int) -> tuple[dict[StructuralChoices, PlanFamily | None], bool]:
    looked: dict[StructuralChoices, PlanFamily | None] = {}
    fitting = 0
    for move, kind in enumerate_families(choices):
        if fitting >= most:
            return looked, False
        looked[move] = kind
        fitting += kind is not None
    return looked, True


def _plans_of(choices: Choices, move: StructuralChoices) -> int:
    try:
        return prod(plan_grid(choices, move).shape)
    except PlanError:
        return 0


def _modelled(choices: Choices, plan: Plan) -> float:
    # One second if the model has no time.
    try:
        seconds = float(model_plan(choices, plan).seconds)
    except Error:
        return 1.0
    return seconds if isfinite(seconds) and seconds > 0 else 1.0


def _rows(choices: Choices, kinds: Sequence[PlanFamily], most: int) -> list[tuple[Plan, float]]:
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
        if plans[0].launches and why_inapplicable(choices, plans[0]) is not None:
            continue  # something that is recomputed crosses launches in shared memory
        registers = kind.taken.rows(chosen.tolist()).registers
        uses = choices.needs.evaluate_many(plans, choices.sizes, device)
        for plan, use, seconds, taken in zip(plans, uses, kind.seconds[chosen], registers, strict=True):
            if why_not(use, choices.limits, 0.0 if choices.may_spill else float(taken)) is None:
                found.append((plan, float(seconds)))
    return found


def _distinct(choices: Choices, rows: list[tuple[Plan, float]]) -> list[tuple[Plan, float]]:
    # On a CPU a scratchpad in memory gives the same code as a shared one.
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
    # Plans of different kinds differ in more than sizes.
    best: dict[object, Plan] = {}
    for plan, _ in sorted(rows, key=lambda row: row[1]):
        kind = replace(plan, tiles={}, chunks={}, splits=dict.fromkeys(plan.splits, 1), warps=1, stages=1)
        best.setdefault(repr(kind), plan)
        if len(best) == MAX_SEEDS:
            break
    return list(best.values())


def _joined(task: Task, limits: Limits, readings: Sequence[_Reading]) -> PlanSpace:
    rows: list[tuple[dict[str, Value], float]] = []
    given: list[tuple[dict[str, Value], Plan]] = []
    liked: list[list[dict[str, Value]]] = []
    fitting: list[dict[str, Value]] = []
    for reading in readings:
        values = reading.version.values
        own = [(values(plan), plan) for plan, _ in reading.must]
        known = [(values(plan), plan) for plan, _ in reading.earlier]
        given += [*known, *own]
        *first, plain = (each for each, _ in own)
        liked.append([*first, *map(values, reading.liked), plain])
        rest = [(values(plan), seconds) for plan, seconds in (*reading.earlier, *reading.rows)]
        fitting += [each for each, _ in rest]
        rows += [*((each, seconds) for (each, _), (_, seconds) in zip(own, reading.must, strict=True)), *rest]
    names = list(dict.fromkeys(name for values, _ in rows for name in values))
    every = {name: sorted({values.get(name) for values, _ in rows}, key=_order) for name in names}
    shared = {name: values[0] for name, values in every.items() if len(values) == 1}
    parameters = {name: values for name, values in every.items() if len(values) > 1}

    def point(values: Mapping[str, Value]) -> Point:
        return tuple(values.get(name) for name in parameters)

    seconds = {point(values): modelled for values, modelled in reversed(rows)}
    in_turn = [point(values) for some in zip_longest(*liked) for values in some if values is not None]
    counts = PlanCounts(
        before=sum(reading.counts.before for reading in readings) + len(seconds.keys() - set(map(point, fitting))),
        fitting=sum(reading.counts.fitting for reading in readings),
        after=len(seconds),
        kinds=sum(reading.counts.kinds for reading in readings),
        all_kinds=all(reading.counts.all_kinds for reading in readings),
    )
    return PlanSpace(
        task, limits, PlannedSpace(parameters, dict(reversed(seconds.items()))), tuple(dict.fromkeys(in_turn)), counts,
        tuple(reading.version for reading in readings), shared,
        {point(values): plan for values, plan in reversed(given)},
    )  # fmt: skip


def _clipped(plan: Plan, choices: Choices) -> Plan:
    # A chunk that holds its whole axis becomes the one that the space has for this.
    extents = {axis: max(1, choices.extents[axis]) for axis in plan.chunks if axis in choices.wholes}
    held = {axis: power_above(extent) if choices.limits.warp > 1 else extent for axis, extent in extents.items()}
    chunks = {
        axis: held[axis] if chunk >= extents.get(axis, chunk + 1) else chunk for axis, chunk in plan.chunks.items()
    }
    return replace(plan, chunks=chunks)


def _order(value: Value) -> tuple[bool, bool, str | float]:
    """None first, then numbers by size, then texts by name."""
    is_text = isinstance(value, str)
    return value is not None, is_text, str(value) if is_text else value or 0
