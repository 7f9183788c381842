"""The part of an axis's chunks that a loop bounded by masks visits, on average over programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ..analysis.masks.conditions import All, Condition, Linear, NotNegative, is_tested, tested_values
from ..analysis.masks.conditions import Any as Some
from ..analysis.schedule.nests import Nest
from ..analysis.schedule.reach import Reach, Reaches
from ..dialect import SizeOp

Numbers = Any
SAMPLES = 13
"""Programs along a tile axis of which the chunks are counted."""
PLACES = tuple((sample + 0.5) * 0.618034 % 1 for sample in range(SAMPLES))
"""Where they are, from 0 to 1: evenly spread, and not at the same places of chunks."""
LET_THROUGH = 0.875
"""Part of the chunks that masks let something through of, where each is tested: it depends on their values. With a part
near 1, chunks are tested only where that costs little beside their work, so that dense masks lose little."""
TEST_OPERATIONS = 4
"""Operations of a test whether a mask lets anything through, for each element of the chunks that are visited."""


@dataclass(frozen=True)
class Sum:
    """A sum of positions of axes and of sizes times coefficients, and a constant."""

    constant: int
    positions: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Visit:
    """What a loop visits of an axis: where some condition holds, each of which says that sums are not negative.

    `conditions`: sums, or ("all" or "some", conditions); None where the model knows no bound. `is_tested`: each chunk
    is tested.
    """

    axis: str
    conditions: tuple[Any, ...]
    is_tested: bool = False

    @property
    def axes(self) -> frozenset[str]:
        """The axes whose positions decide what is visited."""
        return frozenset((self.axis, *(axis for condition in self.conditions for axis in _axes_in(condition))))


def _axes_in(condition: Any) -> Iterator[str]:
    if isinstance(condition, Sum):
        yield from (axis for axis, _ in condition.positions)
    elif condition is not None:
        yield from (axis for part in condition[1] for axis in _axes_in(part))


def visits_of(reaches: Reaches, nest: Nest) -> tuple[tuple[Visit, ...], list[Operation]]:
    """What a nest visits, and what it computes to test chunks."""
    found = [(axis, reach) for axis in nest.axes if (reach := reaches.of_nest(nest, axis)) is not None]
    visits = tuple(visit_of(axis, reach) for axis, reach in found)
    return visits, [item for _, reach in found for item in tests_of(reaches, reach)]


def tests_of(reaches: Reaches, reach: Reach) -> list[Operation]:
    """The items that compute whether chunks are visited."""
    analysis = reaches.analysis
    return analysis.in_chunks(tested_values(reach), lambda value: False)


def visit_of(axis: str, reach: Sequence[Condition]) -> Visit:
    """What the model knows of the positions that a loop must visit."""
    return Visit(axis, tuple(map(_known, reach)), all(map(is_tested, reach)))


def _known(condition: Condition) -> Any:
    match condition:
        case NotNegative(total):
            return _sum(total)
        case All(parts) | Some(parts):
            return "all" if isinstance(condition, All) else "some", tuple(map(_known, parts))
    return None


def _sum(total: Linear) -> Sum | None:
    sizes = [(op.size.data, factor) for value, factor in total.others if isinstance(op := value.owner, SizeOp)]
    return Sum(total.constant, total.positions, tuple(sizes)) if len(sizes) == len(total.others) else None


@dataclass(frozen=True)
class Axes:
    """Axes under plans: `size`: elements at once; `extents`: positions; `sizes`: of the call; `stepped`: axes of which
    a program or a loop around has one step at a time."""

    size: Callable[[str], Numbers]
    extents: Mapping[str, int]
    sizes: Mapping[str, int]
    stepped: frozenset[str]


def visited_part(visit: Visit, axes: Axes) -> Numbers:
    """The mean part of the chunks that is visited, from the first to the last needed; at least one is."""
    extent, chunk = axes.extents.get(visit.axis, 1), axes.size(visit.axis)
    if extent <= 1:
        return 1.0
    chunks = np.ceil(extent / chunk)
    parts = []
    for place in PLACES:
        bounds = [_chunks(one, visit.axis, axes, place, chunk, chunks) for one in visit.conditions]
        firsts, lasts = zip(*bounds, strict=True)
        first, last = reduce(np.minimum, firsts), reduce(np.maximum, lasts)
        parts.append((last - first + 1) / chunks)
    part = sum(parts) / SAMPLES
    return np.maximum(part * LET_THROUGH, 1 / chunks) if visit.is_tested else part


def _chunks(
    condition: Any, axis: str, axes: Axes, place: float, chunk: Numbers, chunks: Numbers
) -> tuple[Numbers, Numbers]:
    """The first and the last chunk that a condition needs in the program at a place from 0 to 1 along its axes."""
    low, high = _bound(condition, axis, axes, place, 1), _bound(condition, axis, axes, place, -1)
    first = 0.0 if low is None else np.clip(np.floor(low / chunk), 0, chunks - 1)
    last = chunks - 1 if high is None else np.clip(np.floor(high / chunk), first, chunks - 1)
    return first, last


def _bound(condition: Any, axis: str, axes: Axes, place: float, sign: int) -> Numbers | None:
    """The least (sign 1) or greatest (-1) position at which a condition may hold; None if it is not known."""
    if isinstance(condition, Sum):
        factor = dict(condition.positions).get(axis, 0)
        if factor * sign <= 0 or any(name not in axes.sizes for name, _ in condition.sizes):
            return None
        rest: Numbers = condition.constant + sum(axes.sizes[name] * n for name, n in condition.sizes)
        for name, n in condition.positions:
            if name != axis:
                rest = rest + n * _position(name, axes, place, n > 0)
        return np.floor(rest / abs(factor)) * -sign
    if condition is None:
        return None
    kind, parts = condition
    every = [_bound(part, axis, axes, place, sign) for part in parts]
    found = [bound for bound in every if bound is not None]
    if not found or (kind == "some" and len(found) < len(every)):
        return None
    return reduce(np.maximum if (sign > 0) is (kind == "all") else np.minimum, found)


def _position(name: str, axes: Axes, place: float, is_last: bool) -> Numbers:
    """The first or last position of a program, or of an axis that is not stepped through."""
    extent = max(1, axes.extents.get(name, 1))
    if name not in axes.stepped:
        return extent - 1 if is_last else 0
    size = axes.size(name)
    first = np.floor(place * np.ceil(extent / size)) * size
    return np.minimum(first + size, extent) - 1 if is_last else first
