"""The loops of a kernel under the decisions of a plan: what they do to which tiles, and what they touch in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from xdsl.ir import Operation

from ..plan import Home
from .visits import Sum, Visit

Axes = tuple[str, ...]

LINE = 64
"""Bytes of a line of a CPU's caches."""
MOST_ALIGNED = 64
"""Bytes of a line: no further alignment matters."""
FAR = 1025
"""Elements from one row to the next from which on it does not matter how far apart they are."""


@dataclass(frozen=True)
class LoopAccess:
    """A load or a store. `place`: the tensor's or scratchpad's name, or the label of a home.

    `axes`: those that decide which elements, ranges too. `run`: the axis along which elements are contiguous in
    memory, None where that is none of the axes or they are found by an index tile. `found`: the axes of index
    tiles. `home`: None for a tensor, else where the memory is. `alignment`: bytes that each row's address is a
    multiple of, as far as strides tell. `guarded`: it may go beyond the tensor, where it is masked, along the axes
    `beyond`. `atomic`: it combines with what is there. `breaks`: places along the axis of an index tile where
    elements are not contiguous: a chunk tests for them. `apart`: the axis along which elements lie apart at few
    known distances, and the vectors that a register is loaded from. `index`: of a tensor, each dimension's as a
    sum, None where it is none. `spread`: where no two elements are side by side, an axis along which they are near,
    and the elements from one of its positions to the next. `ahead`: whether a loop can load it for later
    iterations. `is_laid_out`: the memory is a home, in which elements along a CPU's lanes are contiguous, whatever
    the axis. `is_float`: whether its elements are floating-point numbers. `is_bf16`: bf16 ones. `near`: of a
    tensor, the axis along which the next row is nearest, and bytes from one row to the next, 0 where each begins at
    the end of the one before; None where that is not known. `contracted`: the axis that dots contract of what is
    loaded, where they alone take it. `tensor`: the lengths of a tensor of which elements are found, by number or
    name.
    """

    place: str
    writes: bool
    element_bytes: int
    axes: Axes
    run: str | None
    found: Axes = ()
    home: Home | None = None
    alignment: int = MOST_ALIGNED
    guarded: bool = False
    atomic: bool = False
    breaks: int = 0
    apart: tuple[str, int] | None = None
    index: tuple[Sum | None, ...] = ()
    spread: tuple[str, int] | None = None
    ahead: bool = False
    is_laid_out: bool = False
    is_float: bool = True
    is_bf16: bool = False
    near: tuple[str, int] | None = None
    contracted: str | None = None
    tensor: tuple[str | int, ...] = ()
    beyond: Axes = ()

    @property
    def row(self) -> tuple[str, int] | None:
        """The axis along which elements are side by side, or nearest, and bytes from one to the next; None where there
        is none, or each is on a line of its own."""
        if self.run is not None:
            return self.run, self.element_bytes
        if self.spread is None or self.scattered or self.spread[1] * self.element_bytes >= LINE:
            return None
        return self.spread[0], self.spread[1] * self.element_bytes

    @property
    def nearest(self) -> tuple[str, int] | None:
        """The same as `row`, and of parts of elements that lie together, such as real parts of complex numbers, the
        axis of these elements."""
        if self.row is not None or self.apart is None or self.scattered:
            return self.row
        return self.apart[0], self.apart[1] * self.element_bytes

    @property
    def scattered(self) -> bool:
        return bool(self.found)


@dataclass(frozen=True)
class LoopStep:
    """Something done in a loop to tiles of `axes`: `operations` for each element, `touch` if it goes to memory.

    `ranges`: the sequential loops around it within its phase, or the chunk loop of an axis that it lacks. `reduced`:
    the axis that it reduces along, or `scans`; `completes`: in each chunk, not after the loop. `sides`: of a dot, the
    axes of its left operand alone, of its right one alone, and the contracted one. `beside`: the axes of all that the
    operation does that it is a part of, such as a range. `turned`: GPUs let the right operand of a dot give the rows
    (`dot_orientation`). `is_chained`: of a dot, whether its result goes into another one. `ragged`: axes along which
    the ranges around a touch end after different numbers of trips. `in_int64`: its operations give integers of 64 bits.
    `origin`: the operation of the kernel that it is for.
    """

    axes: Axes
    operations: float
    ranges: Axes = ()
    touch: LoopAccess | None = None
    sides: tuple[Axes, ...] = ()
    reduced: str | None = None
    scans: bool = False
    completes: bool = False
    beside: Axes = ()
    turned: bool = False
    is_chained: bool = False
    ragged: Axes = ()
    in_int64: bool = False
    origin: Operation | None = field(default=None, compare=False, repr=False)

    @property
    def is_dot(self) -> bool:
        return bool(self.sides)


@dataclass(frozen=True)
class BesideRows:
    """What a dot multiplies the rows of another operand with, if both are loaded for it alone: the contracted axis,
    the other operand's tensor and rows, and whether the rows' elements at each position lie side by side."""

    contracted: str
    tensor: str
    rows: Axes
    adjacent: bool


@dataclass(frozen=True)
class LiveTile:
    """A tile alive at some point: `element_bytes` of its elements; whether a dot takes it, a part at a time."""

    axes: Axes
    element_bytes: int
    into_dot: bool
    beside: BesideRows | None = None


@dataclass(frozen=True)
class Loop:
    """A loop over chunks of `axes`, outermost first, none for straight code; `ranges` around it run it again.

    `reduced`: the tiles of partial results that it carries: axes, the axis reduced, bytes of an element. `live`: the
    tiles alive at its worst point, those included. `operand_bytes`: of what a dot in it takes, and its `tensor_dtype`
    (`item_widths.py`); `element_bytes`: of
    most of what it computes; `in_float64`: those of 8 bytes are not all integers. `visits`: of axes of which masks
    leave out chunks. `rescaled`: the results of dots that go online, among `live`. `times`: how many steps each of the
    steps stands for; one each where there are none. `numbers`: of each loop over chunks that it is; the work of several
    has the outer ones in common where the numbers are the same. `of_chained_dots`: the kernel multiplies what it has
    multiplied before, in this loop or another.
    """

    phase: str
    axes: Axes
    ranges: Axes
    steps: tuple[LoopStep, ...]
    reduced: tuple[tuple[Axes, str, int], ...] = ()
    live: tuple[LiveTile, ...] = ()
    operand_bytes: int = 4
    element_bytes: int = 4
    in_float64: bool = True
    visits: tuple[Visit, ...] = ()
    rescaled: tuple[LiveTile, ...] = ()
    times: tuple[int, ...] = ()
    numbers: tuple[int, ...] = field(default=(), compare=False)
    tensor_dtype: str = ""
    of_chained_dots: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.phase, self.axes, self.ranges, self.steps, self.times, self.live))

    @cached_property
    def by_trips(self) -> dict[tuple[Axes, Axes], list[tuple[LoopStep, int]]]:
        """The steps that run equally often, each with its times, by the chunk loops and the ranges around them."""
        found: dict[tuple[Axes, Axes], list[tuple[LoopStep, int]]] = {}
        for step, times in zip(self.steps, self.times or [1] * len(self.steps), strict=True):
            found.setdefault((executed(self, step), step.ranges), []).append((step, times))
        return found

    @cached_property
    def has_dots(self) -> bool:
        return any(step.is_dot for step in self.steps)

    @property
    def is_of_float64(self) -> bool:
        """Whether most of what it computes has 8 bytes, and some of that are floats."""
        return self.element_bytes == 8 and self.in_float64

    def merged(self, named: frozenset[str]) -> Loop:
        """The same work, whatever is accessed: steps that differ in that alone are one, which counts several times.
        `named`: tensors and homes for which it does matter."""
        key = named & self.places
        if key not in self._merged:
            steps = Counter(_unnamed(step, key) for step in self.steps)
            self._merged[key] = replace(self, phase="", steps=tuple(steps), times=tuple(steps.values()))
        return self._merged[key]

    @cached_property
    def _merged(self) -> dict[frozenset[str], Loop]:
        return {}

    @cached_property
    def touches(self) -> tuple[tuple[LoopStep, LoopAccess], ...]:
        """Its steps that go to memory, each with its access."""
        return tuple((step, step.touch) for step in self.steps if step.touch is not None)

    @cached_property
    def places(self) -> frozenset[str]:
        """The memory that it touches."""
        return frozenset(touch.place for _, touch in self.touches)


def _unnamed(step: LoopStep, named: frozenset[str]) -> LoopStep:
    touch = step.touch
    if touch is None or touch.place in named:
        return step
    return replace(step, touch=replace(touch, place="", index=()))


def executed(loop: Loop, step: LoopStep) -> Axes:
    """The chunk loops that a step runs in: down to the innermost of its own, or of the range's that it is in."""
    return _down_to(loop.axes, (*step.axes, *step.beside))


@lru_cache(maxsize=4096)
def _down_to(loops: Axes, axes: Axes) -> Axes:
    depth = max((loops.index(axis) + 1 for axis in axes if axis in loops), default=0)
    return loops[:depth]


def trip_of(loops: Sequence[Loop], number: int, depth: int) -> tuple[tuple[int, ...], frozenset[str]]:
    """The work, by number, within the same trips of one of the loops around some work, and the axes gone through in a
    trip. `depth`: among the ranges and loops over chunks around it, outermost first."""
    one = loops[number]
    around = (*one.ranges, *one.axes)
    found = tuple(place for place, other in enumerate(loops) if other is one or _together(one, other, depth))
    inner: set[str] = set()
    for other in (loops[place] for place in found):
        inner |= {*(*other.ranges, *other.axes)[depth + 1 :], *(a for step, _ in other.touches for a in step.ranges)}
    return found, frozenset(inner.difference(around[: depth + 1]))


def _together(one: Loop, other: Loop, depth: int) -> bool:
    """Whether the work of two is in the same trips of the loop at some depth around them."""
    chunks = depth - len(one.ranges) + 1
    if chunks <= 0:
        return one.ranges[: depth + 1] == other.ranges[: depth + 1]
    return len(one.numbers) >= chunks and one.numbers[:chunks] == other.numbers[:chunks]
