"""The placements of all buffers of a program that take the least modelled time within so many bytes.

Exact, by branch and bound. A launch's time is that of what takes longest in it and a share of the rest, so buffers are
not independent: what is reached over the link costs little beside a kernel that computes long. But it is never less
than any weighted mean of its parts, which is a sum over buffers; with a price for each byte of footprint beside, that
sum is minimised buffer by buffer. The best of some such bounds cuts branches off. Time is counted in picoseconds, so
that ties are ties; of plans that take as long, the one of fewer bytes is taken, then the first in the order copy,
zero-copy, managed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from vkernels.ir.errors import MemoryPlanError
from vkernels.ir.planning.model_time import OVERLAP

from ..calibration import Access
from .costs import Cost, Placement, costs_of
from .program import Program

MEMORY, LINK = "memory", "link"
PICOSECONDS = 1e12
SAFE = 1e-9
"""Of a bound: rounding makes it no larger than this."""
PRICES = 40
"""Halvings of the price of a byte, of which the best bound under a limit is found."""


@dataclass(frozen=True)
class Alternative:
    """What another placement of one buffer would do, the rest as chosen: the program's seconds, and its own cost."""

    cost: Cost
    seconds: float
    fits: bool


@dataclass(frozen=True)
class Choice:
    """A buffer's placement, and all that it could have had, itself among them."""

    buffer: str
    size: int
    cost: Cost
    alternatives: tuple[Alternative, ...]
    why: str

    @property
    def placement(self) -> Placement:
        return self.cost.placement


@dataclass(frozen=True)
class Decision:
    """Placements of all buffers, the program's modelled seconds and the bytes of the memory that the device works in.

    `copying`: the same with every buffer copied, whether or not that fits. `limit`: bytes that it had to fit in.
    """

    choices: tuple[Choice, ...]
    seconds: float
    footprint: int
    copying_seconds: float
    copying_footprint: int
    limit: int | None = None

    @property
    def gain(self) -> float:
        """How many times as long it takes to copy everything."""
        return self.copying_seconds / self.seconds if self.seconds else 1.0

    def of(self, buffer: str) -> Choice:
        """Raises `KeyError` for a buffer that there is not."""
        return {each.buffer: each for each in self.choices}[buffer]


def seconds_of(program: Program, costs: Sequence[Cost]) -> float:
    """Of a program whose buffers are placed so."""
    total = sum(cost.alone for cost in costs)
    for number, launch in enumerate(program.launches):
        parts = dict(launch.parts)
        parts[MEMORY] = parts.get(MEMORY, 0.0) + sum(cost.memory[number] for cost in costs)
        parts[LINK] = parts.get(LINK, 0.0) + sum(cost.link[number] for cost in costs)
        longest = max(parts.values())
        total += launch.launch + longest + OVERLAP * (sum(parts.values()) - longest)
    return total


def choose(program: Program, access: Access, limit: int | None = None) -> Decision:
    """The decision for a program on a device.

    Raises `MemoryPlanError` where no placement fits `limit` bytes: it names the largest buffer that must be there, and
    the least bytes that would do.
    """
    table = [costs_of(buffer, program, access) for buffer in program.buffers]
    least = sum(min(cost.footprint for cost in row) for row in table)
    if limit is not None and least > limit:
        largest = max(range(len(table)), key=lambda n: min(cost.footprint for cost in table[n]))
        size = min(cost.footprint for cost in table[largest])
        raise MemoryPlanError(
            f"{limit} bytes are too few: {program.buffers[largest].name} alone takes {size} wherever it is put, and all "
            f"buffers take {least} at least", least=least,
        )  # fmt: skip
    picked = _Search(program, table, inf if limit is None else limit).best()
    return _decision(program, table, picked, limit)


def _decision(program: Program, table: list[tuple[Cost, ...]], picked: Sequence[int], limit: int | None) -> Decision:
    chosen = [row[number] for row, number in zip(table, picked, strict=True)]
    footprint, seconds = sum(cost.footprint for cost in chosen), seconds_of(program, chosen)
    choices = []
    for number, buffer in enumerate(program.buffers):
        others = [[*chosen[:number], cost, *chosen[number + 1 :]] for cost in table[number]]
        alternatives = tuple(
            Alternative(
                cost, seconds_of(program, each),
                limit is None or footprint - chosen[number].footprint + cost.footprint <= limit,
            )
            for cost, each in zip(table[number], others, strict=True)
        )  # fmt: skip
        why = _why(chosen[number], alternatives, seconds)
        choices.append(Choice(buffer.name, buffer.size, chosen[number], alternatives, why))
    copying = [row[0] for row in table]
    return Decision(
        tuple(choices), seconds, footprint, seconds_of(program, copying), sum(c.footprint for c in copying), limit
    )


def _why(chosen: Cost, alternatives: Iterable[Alternative], seconds: float) -> str:
    """In a few words, with what it was preferred to."""
    others = [each for each in alternatives if each.cost.placement is not chosen.placement]
    faster = [each for each in others if _picoseconds(each.seconds) < _picoseconds(seconds)]
    if faster:
        best = min(faster, key=lambda each: each.seconds)
        return f"{chosen.why}; {best.cost.placement} is faster, but more than fits"
    if not others:
        return chosen.why
    best = min(others, key=lambda each: each.seconds)
    if _picoseconds(best.seconds) == _picoseconds(seconds):
        more = best.cost.footprint > chosen.footprint
        return f"{chosen.why}; {best.cost.placement} takes as long{', and more bytes' if more else ''}"
    return f"{chosen.why}; {best.cost.placement} takes {best.seconds / seconds:.3g} times as long in all"


def _picoseconds(seconds: float) -> int:
    return round(seconds * PICOSECONDS)


@dataclass(frozen=True)
class _Bound:
    """A sum over buffers that is never more than the time: `rows`, seconds of each placement of each buffer, in the
    order in which they are decided; `rest`: the least of all that are not decided yet. `price`: seconds a byte."""

    rows: tuple[tuple[float, ...], ...]
    rest: tuple[float, ...]
    fixed: float
    price: float


class _Search:
    """Depth first over buffers, those that matter most first, the cheapest placement first."""

    def __init__(self, program: Program, table: list[tuple[Cost, ...]], limit: float):
        self.program, self.table, self.limit = program, table, limit
        uniform = [[min(n, len(row) - 1) for row in table] for n in range(max(map(len, table), default=0))]
        leanest = [min(range(len(row)), key=lambda n, row=row: row[n].footprint) for row in table]  # type: ignore[misc]
        starts = [*uniform, leanest]
        tried = [self._improved(start) for start in starts if self._footprint(start) <= limit]
        self.found = min(tried, key=self._rank, default=leanest)
        self.rank = self._rank(self.found)
        weights = {w for each in [*starts, *tried] for w in (self._longest(each), self._shared(each))}
        spread = [max(c.alone + sum(c.memory) + sum(c.link) for c in row) for row in table]
        self.order = sorted(range(len(table)), key=lambda n: -spread[n])
        self.bounds = [bound for weight in sorted(weights) for bound in self._bounds(weight)]
        sizes = [min(cost.footprint for cost in table[n]) for n in self.order]
        self.least = (*reversed(tuple(accumulate(reversed(sizes)))), 0)

    def best(self) -> list[int]:
        """The number of each buffer's placement."""
        self._walk(0, [0] * len(self.table), [bound.fixed for bound in self.bounds], 0)
        return self.found

    def _walk(self, depth: int, picked: list[int], sums: list[float], footprint: int) -> None:
        if footprint + self.least[depth] > self.limit or self._bounded(depth, sums, footprint):
            return
        if depth == len(self.order):
            rank = self._rank(picked)
            if rank < self.rank:
                self.rank, self.found = rank, list(picked)
            return
        buffer = self.order[depth]
        rows = [bound.rows[depth] for bound in self.bounds]
        for number in sorted(range(len(self.table[buffer])), key=lambda n: max((r[n] for r in rows), default=0.0)):
            picked[buffer] = number
            more = [have + row[number] for have, row in zip(sums, rows, strict=True)]
            self._walk(depth + 1, picked, more, footprint + self.table[buffer][number].footprint)

    def _bounded(self, depth: int, sums: Sequence[float], footprint: int) -> bool:
        """Whether nothing below can be better than what was found."""
        best = max((have + bound.rest[depth] for have, bound in zip(sums, self.bounds, strict=True)), default=0.0)
        least = int(best * (1 - SAFE) * PICOSECONDS) - 1
        return (least, footprint + self.least[depth]) > self.rank[:2]

    def _rank(self, picked: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
        costs = self._costs(picked)
        return _picoseconds(seconds_of(self.program, costs)), self._footprint(picked), tuple(picked)

    def _costs(self, picked: Sequence[int]) -> list[Cost]:
        return [row[number] for row, number in zip(self.table, picked, strict=True)]

    def _footprint(self, picked: Sequence[int]) -> int:
        return sum(cost.footprint for cost in self._costs(picked))

    def _improved(self, start: Sequence[int]) -> list[int]:
        """The best that changes of single buffers lead to."""
        found, rank = list(start), self._rank(start)
        while True:
            near = [
                [*found[:buffer], number, *found[buffer + 1 :]]
                for buffer, row in enumerate(self.table)
                for number in range(len(row))
                if number != found[buffer]
            ]
            fitting = [each for each in near if self._footprint(each) <= self.limit]
            best = min(fitting, key=self._rank, default=found)
            if self._rank(best) >= rank:
                return found
            found, rank = best, self._rank(best)

    def _parts(self, picked: Sequence[int]) -> list[tuple[float, float, float]]:
        """Of each launch: seconds of memory, of the link, and the longest of the rest."""
        costs, found = self._costs(picked), []
        for number, launch in enumerate(self.program.launches):
            memory = launch.parts.get(MEMORY, 0.0) + sum(cost.memory[number] for cost in costs)
            link = launch.parts.get(LINK, 0.0) + sum(cost.link[number] for cost in costs)
            found.append((memory, link, _rest(launch.parts)))
        return found

    def _longest(self, picked: Sequence[int]) -> tuple[tuple[float, float], ...]:
        """Weights of memory and link in each launch: one on what takes longest."""
        return tuple(
            (1.0, 0.0) if memory >= max(link, rest) else (0.0, 1.0) if link >= rest else (0.0, 0.0)
            for memory, link, rest in self._parts(picked)
        )

    def _shared(self, picked: Sequence[int]) -> tuple[tuple[float, float], ...]:
        """The same with half the weight on the second."""
        found = []
        for parts in self._parts(picked):
            second = sorted(parts)[1]
            memory, link, _ = (0.5 if part >= second else 0.0 for part in parts)
            found.append((memory, link) if memory + link <= 1 else (0.5, 0.5))
        return tuple(found)

    def _bounds(self, weights: Sequence[tuple[float, float]]) -> list[_Bound]:
        """Without a price for bytes; under a limit also with that of the largest bound."""
        free = self._bound(weights, 0.0)
        if self.limit == inf:
            return [free]
        low, high = 0.0, max(1e-18, free.fixed + free.rest[0])
        best = free
        for _ in range(PRICES):  # concave in the price: where the cheapest placements take too many bytes it must rise
            price = (low + high) / 2
            bound = self._bound(weights, price)
            best = max(best, bound, key=lambda each: each.fixed + each.rest[0])
            low, high = (price, high) if self._taken(bound) > self.limit else (low, price)
        return [free] if best is free else [free, best]

    def _taken(self, bound: _Bound) -> int:
        """Bytes that the cheapest placements take."""
        rows = zip(self.order, bound.rows, strict=True)
        return sum(self.table[buffer][row.index(min(row))].footprint for buffer, row in rows)

    def _bound(self, weights: Sequence[tuple[float, float]], price: float) -> _Bound:
        fixed = -price * self.limit if price else 0.0
        scale = []
        for launch, (of_memory, of_link) in zip(self.program.launches, weights, strict=True):
            memory, link = ((1 - OVERLAP) * weight + OVERLAP for weight in (of_memory, of_link))
            scale.append((memory, link))
            own = OVERLAP * sum(launch.parts.values()) + (1 - OVERLAP) * (
                of_memory * launch.parts.get(MEMORY, 0.0)
                + of_link * launch.parts.get(LINK, 0.0)
                + (1 - of_memory - of_link) * _rest(launch.parts)
            )
            fixed += launch.launch + own
        rows = tuple(
            tuple(
                cost.alone + price * cost.footprint
                + sum(m * a + n * b for (m, n), a, b in zip(scale, cost.memory, cost.link, strict=True))
                for cost in self.table[buffer]
            )
            for buffer in self.order
        )  # fmt: skip
        least = [min(row) for row in rows]
        return _Bound(rows, (*reversed(tuple(accumulate(reversed(least)))), 0.0), fixed, price)


def _rest(parts: Mapping[str, float]) -> float:
    """The longest of a launch's parts that are no memory's."""
    return max((value for name, value in parts.items() if name not in (MEMORY, LINK)), default=0.0)
