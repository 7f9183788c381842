"""Plans to time within many limits: what the chooser takes, what its model likes, what is drawn from all, neighbours.

The registers and bytes that a plan takes are the planner's own counts, so that the search is within the same limits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import numpy as np
from cliffs_judge import Point

from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.cost_model.cpu_registers import cpu_registers, cpu_unrolled
from vkernels.ir.cost_model.model_time import model_time
from vkernels.ir.cost_model.plan_batch import PlanBatch
from vkernels.ir.errors import Error, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan, StructuralChoices
from vkernels.ir.planning.choose_plan import Chosen, choose_plan, plans_down
from vkernels.ir.planning.decisions.decisions import neighbours, starting_choices
from vkernels.ir.planning.one_plan import batch_of
from vkernels.ir.planning.plan_families import MAX_UNROLLED_INSTRUCTIONS
from vkernels.ir.planning.plan_grid import plan_grid
from vkernels.ir.planning.space import PlanSearchSpace

LEAST_REGISTERS, LEAST_SHARED = 8, 16 << 10
KINDS = 400
"""Kinds of plans that are drawn from, those of the fewest moves first."""
PROMISING = 2.0
"""Half of what is drawn is modelled within so many times the least."""


def points_of(limits: Limits) -> list[Point]:
    """Vector registers and share of level 2, each halved step by step; the machine's own first."""
    registers = _halved(limits.registers, LEAST_REGISTERS)
    return [Point(count, shared) for count in registers for shared in _halved(limits.shared, LEAST_SHARED)]


def _halved(size: int, least: int) -> list[int]:
    return [size, *(_halved(size // 2, least) if size // 2 >= least else [])]


@dataclass(frozen=True)
class Taken:
    """What the planner counts that a plan takes."""

    registers: int
    shared: int

    def fits(self, point: Point) -> bool:
        return self.registers <= point.registers and self.shared <= point.shared


@dataclass
class Search:
    """One kernel's plans, within the limits of `space` and parts of them."""

    space: PlanSearchSpace
    points: list[Point]
    seed: int
    _drawable: list[tuple[StructuralChoices, PlanBatch, np.ndarray, np.ndarray]] | None = field(
        default=None, repr=False
    )

    def limits(self, point: Point) -> Limits:
        return replace(self.space.limits, registers=point.registers, shared=point.shared)

    def taken(self, plan: Plan) -> Taken:
        """Raises `PlanError` where the kernel cannot have the plan."""
        space = self.space
        registers = float(np.max(cpu_registers(batch_of(space, plan), space.limits)))
        use = space.needs.evaluate(plan, space.sizes, NeedsDevice.of(space.limits))
        return Taken(int(np.ceil(registers)), int(np.ceil(use.shared_bytes)))

    def chosen(self, point: Point, pin: Pin | None = None) -> Chosen:
        space = self.space
        return choose_plan(space.kernel, space.sizes, self.limits(point), space.needs, space.strides, pin)

    def liked(self, point: Point, count: int) -> list[Plan]:
        """The next of the chooser's own list."""
        space = self.space
        plans = plans_down(space.kernel, space.sizes, self.limits(point), space.needs, space.strides)
        return [chosen.plan for chosen in islice(plans, count)]

    def pinned(self, plan: Plan, point: Point) -> Plan:
        """What the toolkit makes of a plan's sizes: the rest is chosen where they fit; where not, they are chosen too.

        Sizes of axes that the plan holds at once stand for "all of it", and are pinned as such.
        """
        try:
            found = self.chosen(point, Pin(tiles=plan.tiles, chunks=plan.chunks)).plan
            if self.taken(found).fits(point):
                return found
        except Error:  # sizes that the kernel cannot have with any kind of plan
            pass
        return self.chosen(point).plan

    # All kinds and sizes

    @property
    def drawable(self) -> list[tuple[StructuralChoices, PlanBatch, np.ndarray, np.ndarray]]:
        """Every kind of plan, its sizes, and their registers and modelled seconds; those that may be compiled."""
        if self._drawable is None:
            self._drawable = [found for move in self._moves() if (found := self._sizes(move)) is not None]
        return self._drawable

    @property
    def enumerated(self) -> int:
        return sum(int(np.sum(registers <= self.space.limits.registers)) for _, _, registers, _ in self.drawable)

    def _moves(self) -> list[StructuralChoices]:
        moves = dict.fromkeys(starting_choices(self.space))
        for move in moves.copy():
            moves |= dict.fromkeys(neighbours(self.space, move))
        for move in moves.copy():
            if len(moves) >= KINDS:
                break
            moves |= dict.fromkeys(neighbours(self.space, move))
        return list(moves)[:KINDS]

    def _sizes(self, move: StructuralChoices) -> tuple[StructuralChoices, PlanBatch, np.ndarray, np.ndarray] | None:
        space = self.space
        try:
            setting = plan_grid(space, move).only(True)
        except PlanError:
            return None
        shape = setting.shape
        registers = np.broadcast_to(np.asarray(cpu_registers(setting, space.limits), dtype=float), shape).copy()
        registers[np.broadcast_to(cpu_unrolled(setting, space.limits) > MAX_UNROLLED_INSTRUCTIONS, shape)] = np.inf
        modelled = model_time(setting, space.limits, np.minimum(registers, 1e6), 0).seconds
        return move, setting, registers, np.broadcast_to(modelled, shape)

    def drawn(self, count: int) -> list[Plan]:
        """Plans drawn for limits in turn: half of them from all that have as few registers, half from the promising."""
        choose = random.Random(self.seed)
        found: dict[str, Plan] = {}
        by_registers = sorted({point.registers for point in self.points})
        kinds = {most: [kind for kind in self.drawable if np.any(kind[2] <= most)] for most in by_registers}
        least = {m: min(float(np.min(k[3][k[2] <= m])) for k in kinds[m]) for m in by_registers if kinds[m]}
        for number in range(20 * count):
            if len(found) >= count or not least:
                break
            most = by_registers[number % len(by_registers)]
            if most not in least:
                continue
            _, setting, registers, modelled = choose.choice(kinds[most])
            fits = registers <= most
            if number // len(by_registers) % 2:
                fits = fits & (modelled <= PROMISING * least[most])
            rows = np.flatnonzero(fits)
            if len(rows):
                plan = setting.plan(choose.choice(rows.tolist()))
                found.setdefault(repr(plan), plan)
        return list(found.values())

    # Neighbours

    def beside(self, plan: Plan, point: Point) -> Iterator[Plan]:
        """Plans one decision away, or of a size one up or down, that keep within limits."""
        space = self.space
        move = batch_of(space, plan).choices
        for other in neighbours(space, move):
            yield from self._within(point, partial(self._made, other, plan))
        for axis in (*space.tiles, *space.wholes):
            sizes = plan.tiles if axis in plan.tiles else plan.chunks
            for size in _around(sizes[axis], space.width if axis == plan.lanes else 1, space.extents[axis]):
                changed = {**sizes, axis: size}
                part = "tiles" if axis in plan.tiles else "chunks"
                yield from self._within(point, partial(replace, plan, **{part: changed}))

    def _made(self, move: StructuralChoices, plan: Plan) -> Plan:
        sizes = {axis: np.array([float(size)]) for axis, size in {**plan.tiles, **plan.chunks}.items()}
        shares = max(2, self.space.limits.multiprocessors) if move.split else 1
        one = np.array([1])
        return self.space.batch_with(move, sizes, one, one, np.array([shares])).first()

    def _within(self, point: Point, make: Callable[[], Plan]) -> Iterator[Plan]:
        try:
            plan = make()
            unrolled = cpu_unrolled(batch_of(self.space, plan), self.space.limits)
            if self.taken(plan).fits(point) and np.max(unrolled) <= 2 * MAX_UNROLLED_INSTRUCTIONS:
                yield plan
        except Error:
            return


def _around(size: int, unit: int, extent: int) -> Iterable[int]:
    """One up and one down, and twice and half; off the chooser's own list too."""
    found = {size - unit, size + unit, 2 * size, size // 2}
    if unit > 1:
        found.add(unit // 2)
    if size < extent:
        found.add(extent)
    return sorted(each for each in found if 1 <= each <= extent and each != size)
