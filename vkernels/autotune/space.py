"""Discrete search spaces: named parameters, the values that each can have, and which combinations there are.

A point is a tuple of values, one a parameter, in the order of the parameters.
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
"""Points of a space that are held in a list, at most; of larger spaces only the points that are looked at are made."""
MAX_LISTING_STEPS = 1_000_000
"""Values tried before a space counts as too large to be listed: constraints may rule out all but a few of many."""
SAMPLE_STEPS = 1_000
"""Values tried from one start for a random point of a space that is not listed: there may be none where it began."""
SAMPLE_STARTS = 64
"""Starts for such a point, before it is given up."""


MAX_PAIRED = 10
"""Parameters whose products are columns of their own, at most: columns grow by its square."""


@dataclass(frozen=True)
class Constraint:
    """`holds` of the values of the parameters `names`, given in this order, must be true of every point."""

    names: tuple[str, ...]
    holds: Callable[..., bool]


class SearchSpace:
    """All points whose values are those of `parameters`, that satisfy every constraint and are not `invalid`.

    `parameters`: by name, the values that there are, in an order that has a meaning if they have one. A constraint is
    checked as soon as all that it names have values, so that constraints on few names make spaces cheap to list.
    Raises `ArgumentError` for a value that stands twice or can be no value, and for names that are no parameters.
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
        """The space of just these points, each of values of `parameters`."""
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
        """All points, in the order of their values; None where they are too many."""
        budget = _Budget(MAX_LISTING_STEPS)
        try:
            found = tuple(islice(self._walk(self.values, budget), MAX_LISTED + 1))
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
        """All points, one after another, in the order of their values, whether or not they could be listed."""
        return iter(self.listed) if "listed" in self.__dict__ and self.listed else self._walk(self.values, _Budget())

    def named(self, point: Point) -> dict[str, Value]:
        """The values by name."""
        return dict(zip(self.names, point, strict=True))

    def point(self, values: Mapping[str, Value]) -> Point:
        """The point of these values, in the space or not. Raises `ArgumentError` for names too few or too many."""
        if set(values) != set(self.names):
            odd = sorted(set(values) ^ set(self.names))
            raise ArgumentError(f"a point has a value for each of {', '.join(self.names)}; wrong: {', '.join(odd)}")
        return tuple(values[name] for name in self.names)

    def neighbours(self, point: Point) -> tuple[list[Point], list[Point]]:
        """Points that differ in one value: those of the next value on either side, and the others."""
        near: list[Point] = []
        far: list[Point] = []
        for column, (place, values) in enumerate(zip(self._rows_of(point), self.values, strict=True)):
            for other, value in enumerate(values):
                changed = (*point[:column], value, *point[column + 1 :])
                if other != place and changed in self:
                    (near if abs(other - place) == 1 else far).append(changed)
        return near, far

    def sample(self, random: np.random.Generator) -> Point | None:
        """A random point, each as likely as any other where they are listed. None: there is none, or none was found."""
        if self.listed is not None:
            return self.listed[int(random.integers(len(self.listed)))] if self.listed else None
        for _ in range(SAMPLE_STARTS):
            orders = [tuple(values[i] for i in random.permutation(len(values))) for values in self.values]
            with suppress(_Exhausted):
                return next(self._walk(orders, _Budget(SAMPLE_STEPS)), None)
        return None

    def encode(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        """Points as rows of float32, for models that learn from them.

        Columns: each parameter's rank among its values (places, where values have no order), a flag for each value of
        parameters without an order, and the logarithms of the products of each two parameters that are sizes: threads
        are the product of a block's two sides, and what fits depends on products.
        """
        places = np.array([self._rows_of(point) for point in points], dtype=np.intp)
        return _encode(self.values, places.reshape(len(points), len(self.names)))

    def _rows_of(self, point: Point) -> tuple[int, ...]:
        try:
            return tuple(places[value] for places, value in zip(self._places, point, strict=True))
        except (KeyError, TypeError, ValueError):
            raise ArgumentError(f"{point!r} is no point of the parameters {', '.join(self.names)}") from None

    def _checks_by_parameter(self) -> list[list[tuple[tuple[int, ...], Callable[..., bool]]]]:
        """Constraints at the last parameter that they name: that of a walk where they can be checked first."""
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

    def _walk(self, values: Sequence[tuple[Value, ...]], budget: _Budget) -> Iterator[Point]:
        """Points depth first, trying each parameter's values in the order given. Raises `_Exhausted`."""
        chosen: list[Value] = []

        def deeper(column: int) -> Iterator[Point]:
            if column == len(values):
                if (point := tuple(chosen)) not in self._invalid:
                    yield point
                return
            for value in values[column]:
                budget.spend()
                chosen.append(value)
                if self._holds(column, chosen):
                    yield from deeper(column + 1)
                chosen.pop()

        return deeper(0)


class _Exhausted(Exception):
    pass


class _Budget:
    def __init__(self, steps: int | None = None) -> None:
        self.steps = steps

    def spend(self) -> None:
        if self.steps is None:
            return
        if not self.steps:
            raise _Exhausted
        self.steps -= 1


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


def _encode(values: Sequence[Sequence[Value]], places: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
    """Rows for points given by the places of their values, N × parameters."""
    columns: list[npt.NDArray[np.float32]] = []
    sizes: list[npt.NDArray[np.float32]] = []
    for column, given in enumerate(values):
        at = places[:, column]
        if len(given) < 2:
            continue
        numbers = _numbers(given)
        if numbers is None:
            columns.append(at.astype(np.float32))
            if len(given) > 2:
                columns += [(at == place).astype(np.float32) for place in range(len(given))]
            continue
        columns.append(np.argsort(np.argsort(numbers)).astype(np.float32)[at])
        if len(given) > 2 and numbers.min() > 0:
            sizes.append(np.log2(numbers).astype(np.float32)[at])
    if len(sizes) <= MAX_PAIRED:
        columns += [one + other for one, other in combinations(sizes, 2)]
    return np.stack(columns, 1) if columns else np.zeros((len(places), 1), np.float32)


def _numbers(values: Sequence[Value]) -> npt.NDArray[np.float64] | None:
    """The values as numbers, or None where one of them is none."""
    if all(isinstance(value, (bool, int, float)) for value in values):
        return np.array(values, dtype=np.float64)
    return None
