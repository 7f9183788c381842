"""The placements of all buffers of a program that take the least modelled time within so many bytes.

Exact, by branch and bound. A launch's time is that of what takes longest in it and a share of the rest, so buffers are
not independent: what is reached over the link costs little beside a kernel that computes long. `bounds` has sums over
buffers that are never more than the time. Time is counted in picoseconds, so that ties are ties; of placements that
take as long, those of fewer bytes are taken, then the first in the order copy, zero-copy, managed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any

from vkernels.ir.cost_model.plan_batch import OVERLAP
from vkernels.ir.errors import MemoryPlanError

from ..calibration import AccessCosts
from .bounds import PlacementBounds
from .costs import BufferPlacement, PlacementCost, costs_of
from .program import LINK, MEMORY, PlacedProgram

PICOSECONDS = 1e12
SAFE = 1e-9
"""Of a bound: rounding makes it no larger than this."""


@dataclass(frozen=True)
class AlternativePlacement:
    """What another placement of one buffer would do, the rest as chosen: the program's seconds, and its own cost."""

    cost: PlacementCost
    seconds: float
    fits: bool


@dataclass(frozen=True)
class PlacementChoice:
    """A buffer's placement, and all that it could have had, itself among them."""

    buffer: str
    size: int
    cost: PlacementCost
    alternatives: tuple[AlternativePlacement, ...]
    why: str

    @property
    def placement(self) -> BufferPlacement:
        return self.cost.placement


@dataclass(frozen=True)
class PlacementDecision:
    """Placements of all buffers, the program's modelled seconds and the bytes of the memory that the device works in.

    `copying`: the same with every buffer copied, whether or not that fits. `limit`: bytes that it had to fit in.
    """

    choices: tuple[PlacementChoice, ...]
    seconds: float
    footprint: int
    copying_seconds: float
    copying_footprint: int
    limit: int | None = None

    @property
    def gain(self) -> float:
        """How many times as long it takes to copy everything."""
        return self.copying_seconds / self.seconds if self.seconds else 1.0

    def of(self, buffer: str) -> PlacementChoice:
        """Raises `KeyError` for a buffer that there is not."""
        return {each.buffer: each for each in self.choices}[buffer]


def seconds_of(program: PlacedProgram, costs: Sequence[PlacementCost]) -> float:
    """Of a program whose buffers are placed so."""
    total = sum(cost.alone for cost in costs)
    for number, launch in enumerate(program.launches):
        parts = dict(launch.parts)
        parts[MEMORY] = parts.get(MEMORY, 0.0) + sum(cost.memory[number] for cost in costs)
        parts[LINK] = parts.get(LINK, 0.0) + sum(cost.link[number] for cost in costs)
        longest = max(parts.values())
        total += launch.launch + longest + OVERLAP * (sum(parts.values()) - longest)
    return total


def choose(program: PlacedProgram, access: AccessCosts, limit: int | None = None) -> PlacementDecision:
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
            f"{limit} bytes are too few: {program.buffers[largest].name} alone takes {size} wherever it is put, and "
            f"all buffers take {least} at least", least=least,
        )  # fmt: skip
    picked = _Search(program, table, inf if limit is None else limit).best()
    return _decision(program, table, picked, limit)


def _decision(
    program: PlacedProgram, table: list[tuple[PlacementCost, ...]], picked: Sequence[int], limit: int | None
) -> PlacementDecision:
    chosen = [row[number] for row, number in zip(table, picked, strict=True)]
    footprint, seconds = sum(cost.footprint for cost in chosen), seconds_of(program, chosen)
    choices = []
    for number, buffer in enumerate(program.buffers):
        others = [[*chosen[:number], cost, *chosen[number + 1 :]] for cost in table[number]]
        alternatives = tuple(
            AlternativePlacement(
                cost, seconds_of(program, each),
                limit is None or footprint - chosen[number].footprint + cost.footprint <= limit,
            )
            for cost, each in zip(table[number], others, strict=True)
        )  # fmt: skip
        why = _why(chosen[number], alternatives, seconds)
        choices.append(PlacementChoice(buffer.name, buffer.size, chosen[number], alternatives, why))
    copying = [row[0] for row in table]
    return PlacementDecision(
        tuple(choices), seconds, footprint, seconds_of(program, copying), sum(c.footprint for c in copying), limit
    )


def _why(chosen: PlacementCost, alternatives: Iterable[AlternativePlacement], seconds: float) -> str:
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
    longer = best.seconds / seconds - 1 if seconds else inf
    said = f"{longer:.3g} of the whole time longer" if longer < 1 else f"{longer + 1:.3g} times as long in all"
    return f"{chosen.why}; {best.cost.placement} takes {said}"


def _picoseconds(seconds: float) -> int:
    return round(seconds * PICOSECONDS)


class _Search:
    """Depth first over buffers, those that matter most first, the cheapest placement first."""

    def __init__(self, program: PlacedProgram, table: list[tuple[PlacementCost, ...]], limit: float):
        self.program, self.table, self.limit = program, table, limit
        self.allowed = [_not_dominated(row) for row in table]
        starts = [[row[min(n, len(row) - 1)] for row in self.allowed] for n in range(len(BufferPlacement))]
        leanest = [min(row, key=lambda n, c=costs: c[n].footprint) for row, costs in self._rows()]  # type: ignore[misc]
        tried = [self._improved(start) for start in (*starts, leanest) if self._footprint(start) <= limit]
        self.found = min(tried, key=self._rank)
        self.rank = self._rank(self.found)
        spread = [max(c.alone + sum(c.memory) + sum(c.link) for c in row) for row in table]
        self.order = sorted(range(len(table)), key=lambda n: (-len(self.allowed[n]), -spread[n]))
        ordered = [[table[n][number] for number in self.allowed[n]] for n in self.order]
        bounds = PlacementBounds(program.launches, ordered, limit).best(seconds_of(program, self._costs(self.found)))
        self.rows = [bound.rows.tolist() for bound in bounds]
        self.fixed = [bound.fixed for bound in bounds]
        self.rest = [_sums_behind([min(row) for row in rows]) for rows in self.rows]
        self.least = _sums_behind([min(cost.footprint for cost in row) for row in ordered])

    def best(self) -> list[int]:
        """The number of each buffer's placement."""
        self._walk(0, list(self.found), self.fixed, 0)
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
        rows = [bound[depth] for bound in self.rows]
        allowed = self.allowed[buffer]
        for place in sorted(range(len(allowed)), key=lambda n: max(row[n] for row in rows)):
            picked[buffer] = allowed[place]
            more = [have + row[place] for have, row in zip(sums, rows, strict=True)]
            self._walk(depth + 1, picked, more, footprint + self.table[buffer][allowed[place]].footprint)

    def _bounded(self, depth: int, sums: Sequence[float], footprint: int) -> bool:
        """Whether nothing below can be better than what was found."""
        best = max(have + rest[depth] for have, rest in zip(sums, self.rest, strict=True))
        least = int(best * (1 - SAFE) * PICOSECONDS) - 1
        return (least, footprint + self.least[depth]) > self.rank[:2]

    def _rank(self, picked: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
        return _picoseconds(seconds_of(self.program, self._costs(picked))), self._footprint(picked), tuple(picked)

    def _rows(self) -> Iterable[tuple[list[int], tuple[PlacementCost, ...]]]:
        return zip(self.allowed, self.table, strict=True)

    def _costs(self, picked: Sequence[int]) -> list[PlacementCost]:
        return [row[number] for row, number in zip(self.table, picked, strict=True)]

    def _footprint(self, picked: Sequence[int]) -> int:
        return sum(cost.footprint for cost in self._costs(picked))

    def _improved(self, start: Sequence[int]) -> list[int]:
        """The best that changes of single buffers lead to."""
        found, rank = list(start), self._rank(start)
        while True:
            near = [
                [*found[:buffer], number, *found[buffer + 1 :]]
                for buffer, row in enumerate(self.allowed)
                for number in row
                if number != found[buffer]
            ]
            fitting = [each for each in near if self._footprint(each) <= self.limit]
            best = min(fitting, key=self._rank, default=found)
            if self._rank(best) >= rank:
                return found
            found, rank = best, self._rank(best)


def _not_dominated(row: Sequence[PlacementCost]) -> list[int]:
    """Placements that no other betters in everything; of equals the first."""
    found: list[int] = []
    for number, cost in enumerate(row):
        others = [(n, each) for n, each in enumerate(row) if n != number and _no_worse(each, cost)]
        if not any(n < number or not _no_worse(cost, each) for n, each in others):
            found.append(number)
    return found


def _no_worse(one: PlacementCost, other: PlacementCost) -> bool:
    pairs = [(one.alone, other.alone), (one.footprint, other.footprint)]
    pairs += [*zip(one.memory, other.memory, strict=True), *zip(one.link, other.link, strict=True)]
    return all(mine <= its for mine, its in pairs)


def _sums_behind(numbers: Sequence[float]) -> list[Any]:
    """Of all numbers from each place on."""
    return [*reversed([*accumulate(reversed(numbers))]), 0]
