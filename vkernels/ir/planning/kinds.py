"""Kinds of plans: the sizes that fit under the same decisions, by modelled time, and the search among decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from ..errors import PlanError
from ..limits import Limits
from ..needs import Device
from .columns import columns_of, which_fit
from .launches import phases_of_launches
from .model_cpu import cpu_registers, cpu_unrolled
from .model_gpu import is_wieldy
from .model_time import Times, model_time
from .moves import cut_moves, decisions, first_moves, in_memory
from .pinned import NOTHING, pinned_move
from .setting import Numbers, Setting
from .space import Move, Space

KEPT = 4
"""Sizes of each kind of plan that are looked at closely, four times as many where those do not fit."""
UNROLLED = 2048
"""Instructions that CPU code unrolls a loop's body into, at most: more take long to compile, and leave a core's first
cache."""
PLAIN = 0.01
"""Part of the time that each further decision has to win."""
ROUNDS = 4
"""Times that every decision is made anew, under the best kind of plan so far."""
WORTH = 0.75
"""Part of what the whole kernel holds that a launch has to do with, for it to be one of its own."""


@dataclass(frozen=True)
class Taken:
    """Registers a thread and bytes of shared memory that plans take; `launches`: of each, where there are several."""

    registers: Numbers
    shared: Numbers
    launches: tuple[tuple[Numbers, Numbers], ...] = ()

    def among(self, at: Setting, which: Numbers) -> Taken:
        """Of those plans of a setting of which `which` says so."""
        launches = tuple((at.among(which, registers), at.among(which, shared)) for registers, shared in self.launches)
        return Taken(at.among(which, self.registers), at.among(which, self.shared), launches)

    def rows(self, rows: Sequence[int]) -> Taken:
        """Of some plans by number, which are along one axis."""
        launches = tuple((registers[rows], shared[rows]) for registers, shared in self.launches)
        return Taken(self.registers[rows], self.shared[rows], launches)

    def times(self, at: Setting, limits: Limits, most: Numbers) -> Times:
        """Of plans that get no more registers a thread than `most`."""
        if not self.launches:
            return model_time(at, limits, np.minimum(self.registers, most), self.shared)
        registers = tuple(np.minimum(each, most) for each, _ in self.launches)
        return model_time(at, limits, registers, tuple(shared for _, shared in self.launches))


@dataclass(frozen=True)
class Kind:
    """Plans of one kind, what they take, their times, and the best of them in order.

    `seconds`: what decides between them and others: see `_plainness`.
    """

    move: Move
    setting: Setting
    taken: Taken
    times: Times
    seconds: Numbers
    best: Sequence[int]

    @property
    def least(self) -> float:
        return float(self.seconds[self.best[0]])


def kinds_of(space: Space) -> list[Kind]:
    """Kinds of plans: what holds what first, then one decision after another from the best of them, until none is
    better made otherwise; last, on a GPU, launches of their own."""
    seen: dict[Move, Kind | None] = {}

    def better(moves: Iterable[Move], best: Kind) -> Kind:
        return min([best, *filter(None, map(look, moves))], key=lambda kind: kind.least)

    def look(move: Move) -> Kind | None:
        move = pinned_move(space, move)
        if move not in seen:
            seen[move] = kind_of(space, move)
        return seen[move]

    starts = [kind for move in first_moves(space) if (kind := look(move)) is not None]
    found: list[Kind] = []
    to_decide = decisions(space)
    for best in sorted(starts, key=lambda kind: kind.least)[:2]:
        for _ in range(ROUNDS):
            before = best
            for decision in to_decide:
                best = better(decision(best.move), best)
            if best is before:
                break
        look(in_memory(best.move))
        found.append(best)
    if found:
        best = min(found, key=lambda kind: kind.least)
        cuts = _worth_cutting(space, best)
        for _ in cuts:
            best = better(cut_moves(space, best.move, cuts), best)
    return [kind for kind in seen.values() if kind is not None]


def _worth_cutting(space: Space, kind: Kind) -> list[str]:
    """The phases after which a launch of its own would leave one side a good part less to hold, under the best plan."""
    if space.limits.warp == 1 or not space.cuts:
        return []
    use = space.needs.evaluate(kind.setting.plan(kind.best[0]), space.sizes, Device.of(space.limits))
    phases = {phase.name: (phase.registers_a_thread, phase.shared_bytes) for phase in use.phases}
    found: list[str] = []
    for label in space.cuts:
        sides = [
            [max(each) for each in zip(*(phases[name] for name in names), strict=True)]
            for names in phases_of_launches(space.kernel, (label,))
        ]
        if any(min(held) < WORTH * max(held) for held in zip(*sides, strict=True)):
            found.append(label)
    return found


def modelled(space: Space, move: Move, setting: Setting, taken: Taken, most: Numbers) -> Kind:
    """A kind whose plans get no more registers a thread than `most`."""
    times = taken.times(setting, space.limits, most)
    seconds = np.broadcast_to(times.seconds * _plainness(move), setting.shape)
    best = np.argsort(seconds, kind="stable")[: 4 * KEPT]
    return Kind(move, setting, taken, times, seconds, best.tolist())


def kind_of(space: Space, move: Move) -> Kind | None:
    """A kind's plans by modelled time; None where the kernel cannot have it, or nothing fits at first sight."""
    try:
        grid = space.grid(move)
    except PlanError:
        return None
    limits = space.limits
    taken, fits = _on_gpu(space, grid) if limits.warp > 1 else _on_cpu(space, grid)
    if move.split is not None and move.split not in space.pin.splits:
        fits = fits & (grid.shares * grid.size(move.split) < grid.extents[move.split])
    if not np.any(fits):
        return None
    most = limits.registers if limits.warp > 1 else np.inf
    return modelled(space, move, grid.only(fits), taken.among(grid, fits), most)


def _on_gpu(space: Space, grid: Setting) -> tuple[Taken, Numbers]:
    """What plans take, and which of them fit."""
    columns, limits = columns_of(space, grid), space.limits
    launches = [columns_of(space, grid, phases) for phases in grid.launched]
    if launches:
        columns = replace(columns, shared=reduce(np.maximum, [launch.shared for launch in launches]))
    fits = which_fit(columns, grid, limits)
    wieldy = fits & is_wieldy(grid, limits, columns.registers)
    taken = Taken(columns.registers, columns.shared, tuple((each.registers, each.shared) for each in launches))
    return taken, wieldy if np.any(wieldy) else fits


def _on_cpu(space: Space, grid: Setting) -> tuple[Taken, Numbers]:
    """What plans take, and which of them fit."""
    limits = space.limits
    registers = cpu_registers(grid, limits)
    fits = (registers <= limits.registers) & (cpu_unrolled(grid, limits) <= UNROLLED)
    if space.pin != NOTHING and not np.any(fits):  # what is pinned may spill
        fits = registers == np.min(registers)
    return Taken(registers, 0), fits


def _plainness(move: Move) -> float:
    """Above 1 for what is less plain: decisions that are modelled to win nothing are not made."""
    decisions = len(move.homes) + len(move.copies) + len(move.packs) + len(move.streams)
    return 1 + PLAIN * (decisions + 2 * bool(move.split) + 2 * len(move.cuts))
