"""Choose the placements of a program's buffers with the least modelled time, within a limit of bytes.

Exact, by branch and bound. A launch takes its longest part and a share of the rest, so buffers are not independent:
accesses over the link cost little in a kernel that computes long. `bounds` has a lower bound as a sum over buffers.
Time is compared in picoseconds; among equals, fewer bytes win, then the first of copy, zero-copy, managed.
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
from .bounds import bound_of
from .costs import BufferPlacement, PlacementCost, costs_of
from .program import LINK, MEMORY, PlacedProgram

PICOSECONDS = 1e12
SAFE = 1e-9
"""Maximum relative rounding error of the bound."""


@dataclass(frozen=True)
class AlternativePlacement:
    """Another placement of one buffer, with the rest as chosen: its cost, and the program's seconds."""

    cost: PlacementCost
    seconds: float
    fits: bool


@dataclass(frozen=True)
class PlacementChoice:
    """A buffer's placement, and all alternatives, itself included."""

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
    """Placements of all buffers, the program's modelled seconds, and bytes of the memory that the device works in.

    `copying_…`: with every buffer copied, whether or not that fits. `limit`: the maximum footprint.
    """

    choices: tuple[PlacementChoice, ...]
    seconds: float
    footprint: int
    copying_seconds: float
    copying_footprint: int
    limit: int | None = None

    @property
    def gain(self) -> float:
        """The time of copying everything divided by this time."""
        return self.copying_seconds / self.seconds if self.seconds else 1.0

    def of(self, buffer: str) -> PlacementChoice:
        """Return the choice for a buffer. Raises `KeyError` for an unknown one."""
        return {each.buffer: each for each in self.choices}[buffer]


def seconds_of(program: PlacedProgram, costs: Sequence[PlacementCost]) -> float:
    """Return the modelled seconds of a program with these placements."""
    total = sum(cost.alone for cost in costs)
    for number, launch in enumerate(program.launches):
        parts = dict(launch.parts)
        parts[MEMORY] = parts.get(MEMORY, 0.0) + sum(cost.memory[number] for cost in costs)
        parts[LINK] = parts.get(LINK, 0.0) + sum(cost.link[number] for cost in costs)
        longest = max(parts.values())
        total += launch.launch + longest + OVERLAP * (sum(parts.values()) - longest)
    return total


def choose(program: PlacedProgram, access: AccessCosts, limit: int | None = None) -> PlacementDecision:
    """Choose placements for a program on a device.

    Raises `MemoryPlanError` if no placement fits in `limit` bytes, with the largest buffer and the minimum bytes.
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
    picked = _Search(program, table, inf if limit is None else limit).best() if table else []
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
    said = f"{100 * longer:.3g} % more time in all" if longer < 1 else f"{longer + 1:.3g} times as long in all"
    return f"{chosen.why}; {best.cost.placement} takes {said}"


def _picoseconds(seconds: float) -> int:
    return round(seconds * PICOSECONDS)


class _Search:
    """Depth first: the buffers that matter most first, the cheapest placements first."""

    def __init__(self, program: PlacedProgram, table: list[tuple[PlacementCost, ...]], limit: float):
        self.program, self.table, self.limit = program, table, limit
        self.allowed = [_not_dominated(row) for row in table]
        starts = [[row[min(n, len(row) - 1)] for row in self.allowed] for n in range(len(BufferPlacement))]
        pairs = zip(self.allowed, table, strict=True)
        starts.append([min(row, key=lambda n, c=costs: c[n].footprint) for row, costs in pairs])  # type: ignore[misc]
        tried = [self._improved(start) for start in starts if self._footprint(start) <= limit]
        self.found = min(tried, key=self._rank)
        self.rank = self._rank(self.found)
        spread = [max(c.alone + sum(c.memory) + sum(c.link) for c in row) for row in table]
        self.order = sorted(range(len(table)), key=lambda n: (-len(self.allowed[n]), -spread[n]))
        ordered = [[table[n][number] for number in self.allowed[n]] for n in self.order]
        bound, self.fixed = bound_of(program.launches, ordered, limit, seconds_of(program, self._costs(self.found)))
        self.rows = bound.tolist()
        self.rest = _suffix_sums([min(row) for row in self.rows])
        self.least = _suffix_sums([min(cost.footprint for cost in row) for row in ordered])

    def best(self) -> list[int]:
        self._walk(0, list(self.found), self.fixed, 0)
        return self.found

    def _walk(self, depth: int, picked: list[int], seconds: float, footprint: int) -> None:
        """Search the placements of the buffers from `depth` on; `seconds` is the bound of those before."""
        least = int((seconds + self.rest[depth]) * (1 - SAFE) * PICOSECONDS) - 1
        smallest = footprint + self.least[depth]
        if smallest > self.limit or (least, smallest) > self.rank[:2]:
            return
        if depth == len(self.order):
            rank = self._rank(picked)
            if rank < self.rank:
                self.rank, self.found = rank, list(picked)
            return
        buffer, row = self.order[depth], self.rows[depth]
        allowed = self.allowed[buffer]
        for place in sorted(range(len(allowed)), key=row.__getitem__):
            picked[buffer] = allowed[place]
            size = self.table[buffer][allowed[place]].footprint
            self._walk(depth + 1, picked, seconds + row[place], footprint + size)

    def _rank(self, picked: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
        return _picoseconds(seconds_of(self.program, self._costs(picked))), self._footprint(picked), tuple(picked)

    def _costs(self, picked: Sequence[int]) -> list[PlacementCost]:
        return [row[number] for row, number in zip(self.table, picked, strict=True)]

    def _footprint(self, picked: Sequence[int]) -> int:
        return sum(cost.footprint for cost in self._costs(picked))

    def _improved(self, start: Sequence[int]) -> list[int]:
        """Change single buffers as long as that is better."""
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
    """Placements that no other dominates; the first of equals."""
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


def _suffix_sums(numbers: Sequence[float]) -> list[Any]:
    return [*reversed([*accumulate(reversed(numbers), initial=0)])]
