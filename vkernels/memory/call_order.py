"""Which calls of a program may come next: those of a period in turn, or kinds of calls in any order.

Kinds branch where their landmarks do: at each, those remain that have passed the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .landmarks import Landmark, Passage, agree, alike, is_at

OFTEN = 2
"""Times that a kind of call is recorded at least, if it is to be known."""
COMMON = 0.75
"""The least part of the recorded calls that these kinds are."""
LAST = 8
"""Calls at the end of a recording in which nothing may move."""
PATIENCE, HIT = 4.0, 0.25
"""Calls of unknown kinds, less a part of one for each known call, after which calls are recorded again."""


class CallOrder:
    """`passages`: the calls of a period or, if there are `pairs`, kinds of calls, by number: in a pair, the second has
    been watched after the first, and nothing had to move. What a call needs depends on what the one before has left."""

    def __init__(self, passages: Sequence[Passage], pairs: set[tuple[int, int]] | None = None, last: int = -1):
        self.passages, self._pairs = passages, pairs
        self.followed = frozenset(
            part for each in passages for part, stretch in enumerate(each.stretches) if stretch is not None
        )
        """Stretches of functions that are to be followed, by number, of any call."""
        self._part, self._last = -1, last
        self._misses = 0.0

    def begin(self, arguments: Any) -> Sequence[Passage]:
        """Return what the next call may be, by its arguments; first what it is most likely."""
        if self._pairs is None:
            self._part = (self._part + 1) % len(self.passages)
            expected = self.passages[self._part]
            return [expected] if agree(expected.arguments, arguments) else []
        return [each for each in self.passages if agree(each.arguments, arguments)]

    @property
    def part(self) -> int:
        """The number of the call in its period."""
        return self._part

    @property
    def has_kinds(self) -> bool:
        """Whether calls are of kinds, in any order."""
        return self._pairs is not None

    @property
    def is_patient(self) -> bool:
        """Whether calls of other kinds may go on to come between these."""
        return self._pairs is not None and self._misses < PATIENCE

    def knows(self, possible: Sequence[Passage]) -> bool:
        """Whether each of these calls has been watched after the last one."""
        if self._pairs is None:
            return True
        return all((self._last, self._number(each)) in self._pairs for each in possible)

    def came(self, call: Passage | None, fits: bool) -> None:
        """Note what the call was; None: another. `fits`: it was watched, and nothing had to move."""
        if self._pairs is None:
            return
        before, self._last = self._last, -1 if call is None else self._number(call)
        self._misses = self._misses + 1 if call is None else max(0.0, self._misses - HIT)
        if fits and before >= 0 and self._last >= 0:
            self._pairs.add((before, self._last))

    def _number(self, call: Passage) -> int:
        return next(number for number, each in enumerate(self.passages) if each is call)


def remaining(possible: Sequence[Passage], at: int, landmark: Landmark) -> Sequence[Passage]:
    """Return those whose landmark number `at` is the one that a call has passed."""
    if len(possible) == 1:
        landmarks = possible[0].landmarks
        return possible if at < len(landmarks) and is_at(landmarks[at], landmark) else ()
    return [each for each in possible if at < len(each.landmarks) and is_at(each.landmarks[at], landmark)]


def kinds_of(passages: Sequence[Passage]) -> CallOrder | None:
    """Return the kinds of calls that do not repeat in order; None: calls differ more, move, or keep more and more."""
    half, last = len(passages) // 2, passages[-LAST:]
    if not are_few(passages) or any(each.moved for each in last):
        return None
    if max(each.own for each in passages[half:]) > max(each.own for each in passages[:half]):
        return None
    kinds, numbers = _grouped(passages)
    common = _common(numbers)
    new = {number: at for at, number in enumerate(common)}
    found = [new.get(number, -1) for number in numbers[-LAST:]]
    return CallOrder([kinds[number] for number in common], {*pairwise(found)}, found[-1])


def are_few(passages: Sequence[Passage]) -> bool:
    """Whether most calls are of a few kinds."""
    _, numbers = _grouped(passages)
    common = _common(numbers)
    is_rare = sum(map(numbers.count, common)) < COMMON * len(numbers)
    return not is_rare and len(passages) > LAST and len(common) > 1


def _grouped(passages: Sequence[Passage]) -> tuple[list[Passage], list[int]]:
    """Return the kinds of calls, and the number of each call's kind."""
    kinds: list[Passage] = []
    numbers = []
    for each in passages:
        found = ((at, merged) for at, kind in enumerate(kinds) if (merged := alike(kind, each)) is not None)
        number, merged = next(found, (len(kinds), each))
        kinds[number:] = [merged, *kinds[number + 1 :]]
        numbers.append(number)
    return kinds, numbers


def _common(numbers: Sequence[int]) -> list[int]:
    """Kinds that come often enough to be known."""
    return [number for number in range(max(numbers, default=-1) + 1) if numbers.count(number) >= OFTEN]
