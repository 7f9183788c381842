"""Plans and tunable constants as named values of a search space, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from vkernels.compiler.protocols import Constant
from vkernels.inspect.task import Task
from vkernels.ir.errors import ArgumentError
from vkernels.ir.plan import RANGES, Home, Plan
from vkernels.ir.planning.decisions.decisions import DECISION_OF, DECISIONS
from vkernels.ir.planning.space import PlanSearchSpace
from vkernels.language.annotations import Tunable
from vkernels.language.kernel import Kernel

from .space import Value

TILE, CHUNK, HOME = "tile ", "chunk ", "home "
"""Prefixes of parameter names, followed by an axis or value; those of lists are the decisions' data."""
LANES, ORDER, STREAMS, SPLIT, SHARES = "lanes", "order", "streams", "split", "shares"
NUMBERS = {name: name.replace("_", " ") for name in RANGES}
"""Parameter names of the numbers in a plan: a CPU has the least value of each but of those in `ON_CPUS`."""
ON_CPUS = ("private_copies", "swizzle")
BETWEEN = ", "


@dataclass(frozen=True)
class Decisions:
    """What a kernel's plans decide about: axes, values and scratchpads with their default homes.

    `crossing`: the labels of the values. `lists`: by field, the names of which a plan lists some.
    """

    tiles: tuple[str, ...]
    wholes: tuple[str, ...]
    homes: Mapping[str, Home]
    crossing: frozenset[str]
    lists: Mapping[str, tuple[str, ...]]
    on_gpu: bool

    @staticmethod
    def of(space: PlanSearchSpace) -> Decisions:
        """The decisions in the planner's search space."""
        homes = {value.label: value.homes[0] for value in space.needs.crossing}
        crossing = frozenset(homes)
        homes |= {scratchpad.label: Home.SHARED for scratchpad in space.needs.scratchpads}
        lists = {each.field: tuple(each.names(space)) for each in DECISIONS if each.names is not None}
        return Decisions(space.tiles, space.wholes, homes, crossing, lists, space.limits.warp > 1)

    def values(self, plan: Plan) -> dict[str, Value]:
        """A plan's values, without those for axes, values and tensors that the kernel lacks."""
        order = tuple(axis for axis in plan.order if axis in self.tiles)
        found: dict[str, Value] = {TILE + axis: plan.tiles.get(axis, 1) for axis in self.tiles}
        found |= {CHUNK + axis: plan.chunks.get(axis, 1) for axis in self.wholes}
        found[LANES] = plan.lanes
        found[ORDER] = BETWEEN.join(order if len(order) == len(self.tiles) else self.tiles)
        found |= {HOME + label: self._home(plan, label) for label in self.homes}
        for field, names in self.lists.items():
            found |= {_flag(field, name): name in getattr(plan, field) for name in names}
        found[STREAMS] = BETWEEN.join(plan.streams)
        found[SPLIT] = plan.split
        found[SHARES] = 1 if plan.split is None else plan.splits[plan.split]
        for field, name in NUMBERS.items():
            is_decided = self.on_gpu or field in ON_CPUS
            found[name] = getattr(plan, field) if is_decided else RANGES[field][0]
        return found

    def plan(self, values: Mapping[str, Value]) -> Plan:
        """Inverse of `values`."""
        homes = {label: Home(str(home)) for label in self.homes if (home := values[HOME + label]) is not None}
        split, streams, order = values[SPLIT], str(values[STREAMS]), str(values[ORDER])
        lanes = values[LANES]
        rest: dict[str, Any] = {field: _size(values[name]) for field, name in NUMBERS.items()}
        for field, names in self.lists.items():
            rest[field] = tuple(name for name in names if values[_flag(field, name)])
        said = self.crossing if rest["copies"] else frozenset()
        return Plan(
            tiles={axis: _size(values[TILE + axis]) for axis in self.tiles},
            chunks={axis: _size(values[CHUNK + axis]) for axis in self.wholes},
            homes={label: home for label, home in homes.items() if home is not self.homes[label] or label in said},
            splits={} if split is None else {str(split): _size(values[SHARES])},
            streams=tuple(streams.split(BETWEEN)) if streams else (),
            lanes=None if lanes is None else str(lanes),
            order=tuple(order.split(BETWEEN)) if order else (),
            **rest,
        )

    def _home(self, plan: Plan, label: str) -> Value:
        """None for a value of which a plan says nothing beside copies: those may make one phase of two, and then it has
        no home."""
        unsaid = None if plan.copies and label in self.crossing else self.homes[label]
        home = plan.homes.get(label, unsaid)
        return None if home is None else str(home)


def _flag(field: str, name: str) -> str:
    """The parameter that says whether a list of a plan has a name."""
    return f"{DECISION_OF[field].entry} {name}"


def _size(value: Value) -> int:
    return int(value) if isinstance(value, int) else 1


CONSTANT = "constant "
"""Prefix of parameters that are tunable constants."""
MAX_COMBINATIONS = 256
"""Maximal number of combinations of constants: each is a kernel that is built and planned."""


def tunable_values(kernel: Kernel, task: Task) -> list[dict[str, Constant]]:
    """Combinations of the tunable constants that the task leaves open; one empty combination if there are none.

    The first one is that of calls without tuning, even if constraints exclude it. Raises `ArgumentError` for too many
    combinations, and for constraints that fail.
    """
    open_ = {
        parameter.name: parameter.tunable
        for parameter in kernel.parameters
        if parameter.tunable is not None and parameter.name not in task.constants
    }
    fixed = {p.name: p.default for p in kernel.parameters if p.kind == "constant"} | dict(task.constants)
    found: list[dict[str, Constant]] = [{name: tunable.values[0] for name, tunable in open_.items()}]
    for values in product(*(tunable.values for tunable in open_.values())):
        named = dict(zip(open_, values, strict=True))
        known = {**task.shape, **fixed, **named}
        if named != found[0] and all(_holds(task, name, t, known) for name, t in open_.items()):
            found.append(named)
            if len(found) > MAX_COMBINATIONS:
                raise ArgumentError(
                    f"{task.name}: its tunable constants have more than {MAX_COMBINATIONS} values together"
                )
    return found


def _holds(task: Task, name: str, tunable: Tunable, known: Mapping[str, Any]) -> bool:
    missing = [each for each in tunable.names if each not in known]
    if missing:
        raise ArgumentError(f"{task.name}: {name}: `where` asks for {missing[0]}, which is no constant or size of it")
    try:
        return tunable.holds(known)
    except Exception as error:
        raise ArgumentError(f"{task.name}: {name}: `where` failed: {type(error).__name__}: {error}") from error
