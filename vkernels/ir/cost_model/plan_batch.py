"""Many plans of one family at once: the same loops, homes and order, with different sizes, warps and stages.

Numbers that differ are NumPy arrays of one length, so that thousands of plans are modelled in a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plan import AS_IN_PLANS, Home, Plan, StructuralChoices
from .index_sums import Regions
from .loops import Loop, LoopAccess
from .visits import Axes, Visit, visited_part

Numbers = Any
"""A number, or an array with one for each plan."""


@dataclass(frozen=True, eq=False)
class BatchTerms:
    """What models compute again and again of plans with the same sizes, under all choices: `columns` of numbers.

    `loops`: of one loop, by it and the choices that matter to it. `elements`: that accesses take while loops go through
    some axes. `picked`: the terms of some of the plans, by their places.
    """

    extents: Mapping[str, int]
    columns: tuple[Numbers, ...]
    tiles: dict[tuple[str, ...], Numbers] = field(default_factory=dict)
    trips: dict[tuple[str, ...], Numbers] = field(default_factory=dict)
    slots: dict[tuple[tuple[str, ...], str, int], Numbers] = field(default_factory=dict)
    loops: dict[Any, Any] = field(default_factory=dict)
    elements: dict[Any, Numbers] = field(default_factory=dict)
    picked: dict[bytes, BatchTerms] = field(default_factory=dict)

    def are_of(self, batch: PlanBatch) -> bool:
        """Whether the batch has these very columns."""
        same = zip(self.columns, batch.model_columns, strict=False)
        return self.extents is batch.extents and all(mine is theirs for mine, theirs in same)


NO_TERMS = BatchTerms({}, ())


@dataclass(frozen=True)
class AtomicUpdates:
    """What atomics update: bytes of tensors by name. `private`: those that can have copies, with a copy's bytes.
    `apart`: tile axes along which programs do not meet in these."""

    tensors: Mapping[str, int] = field(default_factory=dict)
    private: Mapping[str, int] = field(default_factory=dict)
    apart: tuple[str, ...] = ()


NO_UPDATES = AtomicUpdates()


@dataclass(frozen=True)
class PlanBatch:
    """`sizes`: elements a program or a chunk, of every axis; `extents`: positions of every axis, trips of every range.

    `loops`: what runs under the `choices`. `shares`: programs that share the split axis. `launched`: the phases of
    each launch, where the choices name some, and `launch_tiles`: the tile axes of its programs, and the whole ones that
    it is parallel along. `resident`: programs that run at once; as many as fit where it is 0. `updates`: what atomics
    update. `regions`: of the tensors. `sizes_of_call`: by name. `visited`: the part of an axis's chunks that is
    visited, within a loop that masks bound.
    `copied`: bytes of tensors that are copied K-major first. `chosen_of`: the batch that these plans were picked from,
    and their places in it.
    """

    loops: tuple[Loop, ...]
    choices: StructuralChoices
    sizes: Mapping[str, Numbers]
    extents: Mapping[str, int]
    split_launches: tuple[bool, ...] = ()
    shares: Numbers = 1
    warps: Numbers = 1
    stages: Numbers = 1
    resident: Numbers = 0
    launched: tuple[tuple[str, ...], ...] = ()
    launch_tiles: tuple[frozenset[str], ...] = ()
    updates: AtomicUpdates = NO_UPDATES
    regions: Regions = field(default_factory=Regions, compare=False, repr=False)
    sizes_of_call: Mapping[str, int] = field(default_factory=dict)
    visited: Mapping[str, Numbers] = field(default_factory=dict)
    copied: float = 0.0
    terms: BatchTerms = field(default=NO_TERMS, compare=False, repr=False)
    chosen_of: tuple[PlanBatch, tuple[NDArray[np.int64], ...]] | None = field(default=None, compare=False, repr=False)
    _within: dict[tuple[Visit, ...], PlanBatch] = field(default_factory=dict, compare=False, init=False)

    def __post_init__(self) -> None:
        if not self.terms.are_of(self):
            object.__setattr__(self, "terms", BatchTerms(self.extents, self.model_columns))
            object.__setattr__(self, "chosen_of", None)

    def size(self, axis: str) -> Numbers:
        """Elements at once: 1 of a range."""
        return self.sizes.get(axis, 1)

    def trips(self, axis: str) -> Numbers:
        """Programs along a tile axis, chunks of a whole one, iterations of a range."""
        return self.all_trips((axis,))

    def tile(self, axes: Iterable[str]) -> Numbers:
        """Elements of a tile of some axes."""
        key, tiles = tuple(axes), self.terms.tiles
        found = tiles.get(key)
        if found is None:
            found = tiles[key] = prod((self.size(axis) for axis in key), start=1.0)
        return found

    def all_trips(self, axes: Iterable[str]) -> Numbers:
        """Of loops in one another."""
        key, trips = tuple(axes), self.terms.trips
        found = trips.get(key)
        if found is None:
            if len(key) == 1:
                found = np.ceil(max(1, self.extents.get(key[0], 1)) / self.size(key[0]))
                if key[0] in self.visited:
                    found = found * self.visited[key[0]]
            else:
                found = prod((self.all_trips((axis,)) for axis in key), start=1.0)
            trips[key] = found
        return found

    def within(self, loop: Loop) -> PlanBatch:
        """The plans as a loop sees them, which visits only chunks that masks let through."""
        if not loop.visits:
            return self
        if loop.visits not in self._within:
            stepped = frozenset((*self.choices.order, *loop.axes))
            axes = Axes(self.size, self.extents, self.sizes_of_call, stepped)
            visited = {visit.axis: visited_part(visit, axes) for visit in loop.visits}
            terms = BatchTerms(self.extents, self.model_columns, self.terms.tiles, slots=self.terms.slots)
            self._within[loop.visits] = replace(self, visited=visited, terms=terms)
        return self._within[loop.visits]

    def alike(self, loop: Loop, named: Iterable[str] = ()) -> Loop:
        """What a loop does, whatever is accessed but for what is `named`: one for all loops that do the same."""
        merged = loop.merged(frozenset(named))
        found: Loop = self.terms.loops.setdefault(("same", merged), merged)  # comparing it by identity is fast
        return found

    @property
    def programs(self) -> Numbers:
        """Of all tile axes."""
        return self.all_trips(self.choices.order)

    @property
    def threads_of_work(self) -> Numbers:
        """Programs of the launch with the most of them."""
        copies = self.choices.private_copies
        if copies:
            return float(copies) if copies > 1 else self.all_trips(self.updates.apart)
        return self.programs * self.shares

    @property
    def launches(self) -> int:
        split = len(self.split_launches) if self.choices.split else 1
        if self.choices.private_copies > 1:
            split += len(self.updates.private)
        packs = {(t.place, t.index) for loop in self.loops for _, t in loop.touches if t.place in self.choices.packs}
        return len(packs) + len(self.choices.k_major) + max(1, len(self.launched), split)

    def is_on_chip(self, touch: LoopAccess) -> bool:
        return touch.home is Home.SHARED

    def partial_bytes(self) -> Numbers:
        """Bytes of the partial results that programs of a split axis leave for those after them."""
        return sum(
            self.programs * self.shares * self.tile(each for each in axes if each != axis) * width
            for loop in self.loops for axes, axis, width in loop.reduced if axis == self.choices.split
        )  # fmt: skip

    # One plan, or some of them

    @property
    def model_columns(self) -> tuple[Numbers, ...]:
        """What a loop's work depends on."""
        return (*self.sizes.values(), self.shares, self.warps, self.stages)

    @property
    def _columns(self) -> tuple[Numbers, ...]:
        return (*self.model_columns, self.resident)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of all plans: one axis for each choice, or one for all."""
        return np.broadcast_shapes(*map(np.shape, self._columns))

    def among(self, which: Numbers, value: Numbers) -> Numbers:
        """The numbers of the plans that `which` selects, as an array of one axis."""
        return self._picked(np.broadcast_to(which, self.shape).nonzero(), value)

    def only(self, which: Numbers) -> PlanBatch:
        """The plans that `which` selects, along one axis."""
        selected = np.broadcast_to(which, self.shape)
        where = selected.nonzero()
        terms = self._terms_of(selected, where)
        *sizes, shares, warps, stages = terms.columns
        return replace(
            self, sizes=dict(zip(self.sizes, sizes, strict=True)), shares=shares, warps=warps, stages=stages,
            resident=self._column(where, self.resident), terms=terms, chosen_of=(self, where),
        )  # fmt: skip

    def _terms_of(self, selected: NDArray[np.bool_], where: tuple[NDArray[np.int64], ...]) -> BatchTerms:
        """Those of some of the plans: the same ones whenever these plans are selected, under any choices."""
        key = selected.tobytes()
        if key not in self.terms.picked:
            columns = tuple(self._column(where, column) for column in self.model_columns)
            self.terms.picked[key] = BatchTerms(self.extents, columns)
        return self.terms.picked[key]

    def _column(self, where: tuple[NDArray[np.int64], ...], column: Numbers) -> Numbers:
        return np.reshape(column, 1) if len(where[0]) and np.size(column) == 1 else self._picked(where, column)

    def of_all(self, found: Callable[[PlanBatch], Numbers]) -> Numbers:
        """A term of these plans, computed for all plans that they were picked from, where few sizes matter to each."""
        if self.chosen_of is not None:
            whole, where = self.chosen_of
            if whole.loops is self.loops and whole.choices is self.choices:
                return self._picked(where, whole.of_all(found))
        return found(self)

    def _picked(self, where: tuple[NDArray[np.int64], ...], value: Numbers) -> Numbers:
        """The numbers at some places; what depends on few choices has few axes."""
        value = np.asarray(value)
        places = zip(where[len(where) - value.ndim :], value.shape, strict=True)
        along = tuple(place for place, length in places if length > 1)
        return value.squeeze()[along] if along else np.full(len(where[0]), value.item())

    def first(self) -> Plan:
        """The first plan."""
        return self.plan(0)

    def plan(self, number: int) -> Plan:
        """One of those along the only axis; where there are several axes, the first alone."""
        flat = (np.asarray(column).reshape(-1) for column in self._columns)
        return self._plan(tuple(float(column[number if column.size > 1 else 0]) for column in flat))

    def plans(self) -> list[Plan]:
        """One plan for each number."""
        columns = np.broadcast_arrays(*self._columns)
        rows = zip(*(column.reshape(-1).tolist() for column in columns), strict=True)
        return [self._plan(row) for row in rows]

    def _plan(self, row: tuple[float, ...]) -> Plan:
        *each, shares, warps, stages, resident = (int(value) for value in row)
        sizes = dict(zip(self.sizes, each, strict=True))
        choices = self.choices
        return Plan(
            tiles={axis: sizes[axis] for axis in sizes if axis in choices.order},
            chunks={axis: sizes[axis] for axis in sizes if axis not in choices.order},
            homes=dict(choices.homes),
            splits={choices.split: shares} if choices.split is not None and shares > 1 else {},
            warps=warps,
            stages=stages,
            resident_programs=resident,
            **{name: getattr(choices, name) for name in AS_IN_PLANS},
        )


def clipped(value: Numbers, least: Numbers, most: Numbers) -> Numbers:
    """A number within bounds: `np.clip`, in a fifth of its time for few numbers."""
    return np.minimum(np.maximum(value, least), most)


OVERLAP = 0.3
"""Part of what is not the bottleneck that is not hidden behind it. As fitted: processors overlap most, never all. It is
part of the model's form, and of calibration, which takes it off what it measures; waiting beyond it is measured."""


@dataclass(frozen=True)
class ModeledTimes:
    """Seconds by what takes them; numbers, or arrays with one for each plan. `launches` come on top of the rest."""

    parts: Mapping[str, Numbers]
    launches: Numbers

    @property
    def seconds(self) -> Numbers:
        """The longest part, a share of the others, and the launches."""
        values = list(self.parts.values())
        longest = reduce(np.maximum, values, 0.0)
        return longest + OVERLAP * (sum(values) - longest) + self.launches

    def at(self, number: int) -> ModeledTimes:
        """Those of one plan."""
        parts = {name: _at(value, number) for name, value in self.parts.items()}
        return ModeledTimes(parts, _at(self.launches, number))

    @property
    def bottleneck(self) -> str:
        """What takes longest."""
        parts = {**self.parts, "launches": self.launches}
        return max(parts, key=lambda name: float(parts[name]))


def _at(value: Numbers, number: int) -> float:
    flat = np.asarray(value, dtype=float).reshape(-1)
    return float(flat[number] if flat.size > 1 else flat[0])
