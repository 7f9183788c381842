"""How many programs of several kernels run beside one another on the multiprocessors of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Taken = tuple[tuple[str, Fraction], ...]
"""Parts of a multiprocessor's resources, by name."""


@dataclass(frozen=True)
class HeldPrograms:
    """Programs of one task that are to run at once. `taken`: of a multiprocessor by each, see `taken_parts`."""

    programs: int
    taken: Taken

    def parts(self, multiprocessors: int) -> dict[str, float]:
        """What all of them take of each resource of so many multiprocessors."""
        return {name: float(self.programs * part / multiprocessors) for name, part in self.taken}


@lru_cache(maxsize=256)
def crowded_out(multiprocessors: int, tasks: tuple[HeldPrograms, ...]) -> float:
    """The part of a task's programs that finds no room while those of the others run, of the task with the most.

    Programs go one by one to the multiprocessor that is filled least, as the hardware spreads them.
    """
    worst = 0.0
    for number, task in enumerate(tasks):
        if task.programs:
            room = _Room(multiprocessors)
            for other in (*tasks[:number], *tasks[number + 1 :]):
                room.place(other)
            worst = max(worst, 1 - room.place(task) / task.programs)
    return worst


class _Room:
    """Multiprocessors in groups that hold the same: how many, and what is taken of each."""

    def __init__(self, multiprocessors: int) -> None:
        self._groups: list[tuple[int, dict[str, Fraction]]] = [(multiprocessors, {})]

    def place(self, task: HeldPrograms) -> int:
        """Place as many of the programs as find room; returns how many."""
        left = task.programs
        while left and (at := self._emptiest(task.taken)) is not None:
            count, taken = self._groups.pop(at)
            more = dict(taken)
            for name, part in task.taken:
                more[name] = more.get(name, Fraction(0)) + part
            placed = min(left, count)
            self._groups.append((placed, more))
            if placed < count:
                self._groups.append((count - placed, taken))
            left -= placed
        return task.programs - left

    def _emptiest(self, taken: Sequence[tuple[str, Fraction]]) -> int | None:
        """The group that is filled least of those with room for one more program."""
        fill = {
            number: max(held.values(), default=Fraction(0))
            for number, (_, held) in enumerate(self._groups)
            if all(held.get(name, Fraction(0)) + part <= 1 for name, part in taken)
        }
        return min(fill, key=lambda number: fill[number], default=None)
