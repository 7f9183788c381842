"""Find after how many calls a program's calls repeat, and join so many to one iteration."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from .op_tracer import Iteration, Made, Storage, Watched

MAX_PERIOD = 8
"""Calls, such as those that accumulate gradients for one step of an optimiser."""
MAX_OPERATIONS = 1 << 12
"""Of all calls of a period that is longer than one: planning takes seconds for a thousand."""
SEARCHES = 3
"""Times that a longer period is searched for, after plans from which calls deviated."""


class PeriodSearch:
    """Decides how many calls to record. `least`: calls that have to repeat."""

    def __init__(self) -> None:
        self.least = 2
        self._searches = SEARCHES
        self._left = 0
        """Plans that were left because two calls in a row deviated."""
        self._deviated = -MAX_PERIOD
        """The last call that deviated from a plan."""

    def period_of(self, watched: Watched, least: int = 0) -> int | None:
        """Return after how many calls the recorded ones repeat, at least in so many; None: more have to be recorded.

        Where they seem not to repeat it is 1, and it is for the planner to find what differs; with a `least`, 0.
        """
        calls = _signatures(watched)
        for period in range(1, MAX_PERIOD + 1):
            count = max(2 * period, self.least, least)
            last = calls[-count:]
            if len(last) == count and last[period:] == last[:-period] and (period == 1 or _is_short(last[:period])):
                return period
        is_new = len(calls) > MAX_PERIOD and calls[-1] not in calls[-1 - MAX_PERIOD : -1]
        if len(calls) < 2 * MAX_PERIOD and not is_new:
            return None
        self.least = 2
        return 0 if least else 1

    @property
    def is_doubtful(self) -> bool:
        """Whether calls have deviated from two plans or more: two that are alike are not enough for another."""
        return self._left > 1 or self._searches < SEARCHES - 1

    def deviates(self, call: int) -> bool:
        """Note a call that deviated from a plan; whether calls seem to repeat after more than the plan has."""
        distance, self._deviated = call - self._deviated, call
        if not 1 < distance <= MAX_PERIOD or not self._searches:
            return False
        self._searches, self.least = self._searches - 1, 2 * distance
        return True

    def leave(self) -> None:
        """Note a plan that was left, because two calls in a row deviated from it."""
        self._left += 1
        if self._left > 1 and self._searches:
            self._searches, self.least = self._searches - 1, 2 * MAX_PERIOD


def joined(watched: Watched, period: int) -> Watched:
    """Return the last two periods as two iterations. Indices of storages stay."""
    first = len(watched.iterations) - 2 * period
    last = watched.iterations[first:]
    begins = [at for half in (last[:period], last[period:]) for at in part_begins(half)]

    def moment(iteration: int, operation: int) -> tuple[int, int] | None:
        """An operation's new numbers; None before the first period."""
        at = iteration - first
        return None if at < 0 else (at // period, begins[at] + operation)

    def moved(storage: Storage) -> Storage:
        made = None if storage.made is None else moment(*storage.made[:2])
        freed = None if storage.freed is None else moment(*storage.freed)
        ordinal = 0 if storage.made is None else storage.made.ordinal
        return replace(storage, made=None if made is None else Made(*made, ordinal), freed=freed)

    halves = [_as_one(last[:period]), _as_one(last[period:])]
    return Watched(halves, [moved(each) for each in watched.storages])


def part_begins(iterations: list[Iteration]) -> list[int]:
    """Return the number of the first operation of each call of a period."""
    return [*accumulate((len(each.operations) for each in iterations[:-1]), initial=0)]


def bytes_at(watched: Watched, kind: str) -> list[int]:
    """Return the bytes on a kind of device at each operation of all iterations. What no operation has made is there
    from the beginning of the iteration that uses it first."""
    begins, count = part_begins(watched.iterations), sum(len(each.operations) for each in watched.iterations)
    first: dict[int, int] = {}
    for at, iteration in enumerate(watched.iterations):
        for op in iteration.operations:
            for number in (*op.reads, *op.writes):
                first.setdefault(number, begins[at])
    steps = [0] * (count + 1)
    for number, each in enumerate(watched.storages):
        if each.kind != kind:
            continue
        start = first.get(number, count) if each.made is None else begins[each.made.iteration] + each.made.operation
        is_freed = each.freed is not None and each.freed[0] < len(begins)
        end = begins[each.freed[0]] + each.freed[1] if is_freed and each.freed is not None else count
        if start < end:
            steps[start] += each.size
            steps[end] -= each.size
    return [*accumulate(steps[:-1])]


def _as_one(iterations: list[Iteration]) -> Iteration:
    operations, outside = [], 0.0
    for each in iterations:
        for op in each.operations:
            operations.append(replace(op, outside=op.outside + outside))
            outside = 0.0
        outside += each.outside
    return Iteration(operations, outside)


def _signatures(watched: Watched) -> list[tuple[tuple[str, tuple[int, ...]], ...]]:
    """What has to be the same in calls that are alike: operations, and the sizes of their tensors."""
    sizes = [each.size for each in watched.storages]
    return [
        tuple((op.name, tuple([sizes[n] for n in (*op.reads, *op.writes)])) for op in each.operations)
        for each in watched.iterations
    ]


def _is_short(calls: list[tuple[tuple[str, tuple[int, ...]], ...]]) -> bool:
    return sum(map(len, calls)) <= MAX_OPERATIONS
