"""Discrete search spaces: named parameters, their values, and constraints on combinations.

A point is a tuple of values in the order of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from vkernels.ir.errors import ArgumentError

Value = bool | int | float | str | None
Point = tuple[Value, ...]

MAX_LISTED = 100_000
"""Larger spaces are not held as a list of points."""
MAX_LISTING_STEPS = 1_000_000
"""Values tried before a space counts as too large to list: constraints may exclude most combinations."""
SAMPLE_STEPS = 1_000
"""Values tried per start for a random point of an unlisted space: there may be no point near a start."""
SAMPLE_STARTS = 64
"""Maximal number of starts for such a point."""
MAX_PAIRED = 10
"""With more numeric parameters, products of two are not encoded: their number grows quadratically."""


@dataclass(frozen=True)
class Constraint:
    """`holds` must be true for the values of the parameters `names`, in this order."""

    names: tuple[str, ...]
    holds: Callable[..., bool]


class SearchSpace:
    """All points with values of `parameters` that satisfy every constraint and are not `invalid`.

    `parameters`: values by name, in a meaningful order if there is one. A constraint is checked as soon as all its
    parameters have values, so constraints on few parameters make spaces cheap to list. Raises `ArgumentError` for
    duplicate or unsuitable values, and for unknown names in constraints.
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Value]],
        constraints: Iterable[Constraint] = (),
        invalid: Iterable[Point] = (),
    ) -> None:
        self.names = tuple(parameters)
        self.values: tuple[tuple[Value, ...], ...] = tuple(tuple(values) for values in parameters.values())
        self._places = [_places(name, values) for name, values in zip(self.names, self.values, strict=True)]
        self._constraints = tuple(constraints)
        self._invalid = frozenset(invalid)
        self._members: frozenset[Point] | None = None
        self._checks = self._checks_by_parameter()

    @staticmethod
    def of_points(parameters: Mapping[str, Sequence[Value]], points: Iterable[Point]) -> SearchSpace:
        """The space of these points, which have values of `parameters`."""
        names = tuple(parameters)
        listed = list(points)
        known = frozenset(listed)
        space = SearchSpace(parameters, [Constraint(names, lambda *values: values in known)])
        for point in listed:
            space._rows_of(point)
        space.listed = tuple(dict.fromkeys(listed))
        space._members = known
        return space

    @cached_property
    def listed(self) -> tuple[Point, ...] | None:
        """All points, in the order of their values; None if they are too many."""
        try:
            found = tuple(islice(self._walk(self.values, MAX_LISTING_STEPS), MAX_LISTED + 1))
        except _Exhausted:
            return None
        if len(found) > MAX_LISTED:
            return None
        self._members = frozenset(found)
        return found

    def __contains__(self, point: object) -> bool:
        if not isinstance(point, tuple) or len(point) != len(self.names):
            return False
        try:
            if self._members is not None:
                return point in self._members
            if point in self._invalid:
                return False
            self._rows_of(point)
        except (ArgumentError, TypeError):
            return False
        return all(self._holds(column, point) for column in range(len(point)))

    def __iter__(self) -> Iterator[Point]:
        """All points in the order of their values, even if they cannot be listed."""
        return iter(self.listed) if "listed" in self.__dict__ and self.listed else self._walk(self.values)

    def named(self, point: Point) -> dict[str, Value]:
        """A point's values by name."""
        return dict(zip(self.names, point, strict=True))

    def point(self, values: Mapping[str, Value]) -> Point:
        """The point of these values, in the space or not. Raises `ArgumentError` for missing or unknown names."""
        if set(values) != set(self.names):
            odd = sorted(set(values) ^ set(self.names))
            raise ArgumentError(f"a point has a value for each of {', '.join(self.names)}; wrong: {', '.join(odd)}")
        return tuple(values[name] for name in self.names)

    def neighbours(self, point: Point) -> tuple[list[Point], list[Point]]:
        """Points that differ in one value: those with the next value on either side, and the others."""
        near: list[Point] = []
        far: list[Point] = []
        for column, (place, values) in enumerate(zip(self._rows_of(point), self.values, strict=True)):
            for other, value in enumerate(values):
                changed = (*point[:column], value, *point[column + 1 :])
                if other != place and changed in self:
                    (near if abs(other - place) == 1 else far).append(changed)
        return near, far

    def sample(self, random: np.random.Generator) -> Point | None:
        """A random point, uniformly distributed if they are listed; None if none was found."""
        if self.listed is not None:
            return self.listed[int(random.integers(len(self.listed)))] if self.listed else None
        for _ in range(SAMPLE_STARTS):
            orders = [tuple(values[i] for i in random.permutation(len(values))) for values in self.values]
            with suppress(_Exhausted):
                return next(self._walk(orders, SAMPLE_STEPS), None)
        return None

    def encode(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        """Points as rows of float32, for surrogate models.

        Columns: the rank of each value (its index for values that are no numbers), a flag for each value that is no
        number, and the logarithms of the products of each two sizes: the number of threads, for example, is the product
        of a block's two sides.
        """
        indices = np.array([self._rows_of(point) for point in points], dtype=np.intp)
        indices = indices.reshape(len(points), len(self.names))
        columns: list[npt.NDArray[np.float32]] = []
        sizes: list[npt.NDArray[np.float32]] = []
        for column, values in enumerate(self.values):
            at = indices[:, column]
            if len(values) < 2:
                continue
            if not all(isinstance(value, bool | int | float) for value in values):
                columns.append(at.astype(np.float32))
                if len(values) > 2:
                    columns += [(at == index).astype(np.float32) for index in range(len(values))]
                continue
            numbers = np.array(values, dtype=np.float64)
            columns.append(np.argsort(np.argsort(numbers)).astype(np.float32)[at])
            if len(values) > 2 and numbers.min() > 0:
                sizes.append(np.log2(numbers).astype(np.float32)[at])
        if len(sizes) <= MAX_PAIRED:
            columns += [one + other for one, other in combinations(sizes, 2)]
        return np.stack(columns, 1) if columns else np.zeros((len(points), 1), np.float32)

    def _rows_of(self, point: Point) -> tuple[int, ...]:
        try:
            return tuple(places[value] for places, value in zip(self._places, point, strict=True))
        except (KeyError, TypeError, ValueError):
            raise ArgumentError(f"{point!r} is no point of the parameters {', '.join(self.names)}") from None

    def _checks_by_parameter(self) -> list[list[tuple[tuple[int, ...], Callable[..., bool]]]]:
        checks: list[list[tuple[tuple[int, ...], Callable[..., bool]]]] = [[] for _ in self.names]
        for constraint in self._constraints:
            unknown = [name for name in constraint.names if name not in self.names]
            if unknown or not constraint.names:
                raise ArgumentError(f"a constraint names {', '.join(unknown) or 'nothing'}: no parameter")
            columns = tuple(self.names.index(name) for name in constraint.names)
            checks[max(columns)].append((columns, constraint.holds))
        return checks

    def _holds(self, column: int, values: Sequence[Value]) -> bool:
        return all(holds(*(values[c] for c in columns)) for columns, holds in self._checks[column])

    def _walk(self, values: Sequence[tuple[Value, ...]], steps: float = float("inf")) -> Iterator[Point]:
        """Points depth first, in the given order of values. Raises `_Exhausted` after this many values."""
        chosen: list[Value] = []

        def deeper(column: int) -> Iterator[Point]:
            nonlocal steps
            if column == len(values):
                if (point := tuple(chosen)) not in self._invalid:
                    yield point
                return
            for value in values[column]:
                steps -= 1
                if steps < 0:
                    raise _Exhausted
                chosen.append(value)
                if self._holds(column, chosen):
                    yield from deeper(column + 1)
                chosen.pop()

        return deeper(0)


class _Exhausted(Exception):
    """A walk took too many steps."""


def _places(name: str, values: Sequence[Value]) -> dict[Value, int]:
    for value in values:
        if not (value is None or isinstance(value, (bool, int, float, str))) or value != value:
            raise ArgumentError(
                f"parameter {name}: {value!r} can be no value; values are numbers, texts, booleans, None"
            )
    places = {value: place for place, value in enumerate(values)}
    if len(places) != len(values):
        raise ArgumentError(f"parameter {name} has a value twice: {list(values)!r}")
    return places
