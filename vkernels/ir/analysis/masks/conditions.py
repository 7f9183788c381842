"""Conditions on the positions of axes: comparisons of sums of positions, and other truth values of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialect import axes_of


@dataclass(frozen=True)
class Linear:
    """A sum: a constant, positions of axes times coefficients, and other integers of the kernel times coefficients."""

    constant: int = 0
    positions: tuple[tuple[str, int], ...] = ()
    others: tuple[tuple[SSAValue, int], ...] = ()

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """This sum and `factor` times another."""
        positions, others = dict(self.positions), dict(self.others)
        for axis, coefficient in other.positions:
            positions[axis] = positions.get(axis, 0) + factor * coefficient
        for value, coefficient in other.others:
            others[value] = others.get(value, 0) + factor * coefficient
        return Linear(
            self.constant + factor * other.constant,
            tuple((axis, n) for axis, n in positions.items() if n),
            tuple((value, n) for value, n in others.items() if n),
        )

    def times(self, factor: int) -> Linear:
        return Linear().plus(self, factor)

    def coefficient(self, axis: str) -> int:
        return dict(self.positions).get(axis, 0)

    def without(self, value: SSAValue) -> Linear:
        """The sum without one of the other integers."""
        return Linear(self.constant, self.positions, tuple(pair for pair in self.others if pair[0] is not value))

    def has(self, axis: str) -> bool:
        """Whether the sum depends on the position along an axis in a way that is not linear."""
        return any(axis in axes_of(value) for value, _ in self.others)


@dataclass(frozen=True)
class Holds:
    """A truth value of the kernel is true, or false, whose comparison says nothing of positions."""

    value: SSAValue
    is_true: bool = True


@dataclass(frozen=True)
class NotNegative:
    """A sum is at least 0. `fits`: sums that must fit in integers of so many bits, else the comparison wrapped."""

    sum: Linear
    fits: tuple[tuple[Linear, int], ...] = ()


@dataclass(frozen=True)
class All:
    """All parts hold; true without any."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Any:
    """Some part holds; false without any."""

    parts: tuple[Condition, ...] = ()


Condition = Holds | NotNegative | All | Any
ALWAYS, NEVER = All(), Any()


def all_of(*parts: Condition) -> Condition:
    """All of the conditions, as few as can be told."""
    flat = [one for part in parts for one in (part.parts if isinstance(part, All) else (part,))]
    if NEVER in flat:
        return NEVER
    kept = tuple(dict.fromkeys(flat))
    return kept[0] if len(kept) == 1 else All(kept)


def any_of(*parts: Condition) -> Condition:
    """Some of the conditions, as few as can be told."""
    flat = [one for part in parts for one in (part.parts if isinstance(part, Any) else (part,))]
    if ALWAYS in flat:
        return ALWAYS
    kept = tuple(dict.fromkeys(flat))
    return kept[0] if len(kept) == 1 else Any(kept)


def narrows(condition: Condition, axis: str) -> bool:
    """Whether a condition may bound the positions along an axis, from below or from above."""
    return _bounds(condition, axis, 1) or _bounds(condition, axis, -1)


def is_tested(condition: Condition) -> bool:
    """Whether a truth value that a chunk can be tested for says that a condition does not hold there."""
    match condition:
        case Holds():
            return True
        case All(parts):
            return any(map(is_tested, parts))
        case Any(parts):
            return bool(parts) and all(map(is_tested, parts))
    return False


def tested_values(conditions: Sequence[Condition]) -> list[SSAValue]:
    """The truth values that chunks are tested for; none if some condition cannot be tested."""
    return [value for one in conditions for value in _values(one)] if all(map(is_tested, conditions)) else []


def _values(condition: Condition) -> Iterator[SSAValue]:
    if isinstance(condition, Holds):
        yield condition.value
    elif isinstance(condition, All | Any):
        for part in condition.parts:
            yield from _values(part)


def pruned(condition: Condition, is_used: Callable[[Holds | NotNegative], bool]) -> Condition:
    """A condition that holds at least as often, without the comparisons and truth values that are not used."""
    match condition:
        case All(parts):
            return all_of(*(pruned(part, is_used) for part in parts))
        case Any(parts):
            return any_of(*(pruned(part, is_used) for part in parts))
    return condition if is_used(condition) else ALWAYS


def _bounds(condition: Condition, axis: str, sign: int) -> bool:
    """Whether a condition bounds an axis from below (1) or from above (-1)."""
    match condition:
        case NotNegative(total, fits):
            is_linear = not any(one.has(axis) for one in (total, *(narrow for narrow, _ in fits)))
            return total.coefficient(axis) * sign > 0 and is_linear
        case All(parts):
            return any(_bounds(part, axis, sign) for part in parts)
        case Any(parts):
            return bool(parts) and all(_bounds(part, axis, sign) for part in parts)
    return False
