"""What a plan for a kernel decides about, and the sizes that are worth a thought."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..dialect import (
    AccessOp,
    DotOp,
    KernelOp,
    MaxOp,
    PhaseOp,
    RangeOp,
    StoreOp,
    TensorArgumentType,
    TileOp,
    WholeOp,
    axes_of,
)
from ..errors import PlanError
from ..facts import Facts
from ..limits import Limits
from ..needs import Needs, annotate_needs
from ..passes.apply_plan.axes import known_value, resolve_axes
from ..passes.apply_plan.choose_homes import make_schedule
from ..passes.apply_plan.copies import find_copies
from ..passes.apply_plan.reading import Reading
from ..passes.split_phases import split_phases
from ..pin import Pin
from ..plan import Home, Plan
from .bounds import TIMES_CORES, most_shares
from .launches import cut_loops, cuts_of, phases_of_launches
from .loops import MOST_ALIGNED, WHILE, Known, Loop, bytes_of, range_axes, read_loops
from .pinned import NOTHING, pinned_size
from .powers import power_above
from .setting import Numbers, Setting

UNKNOWN_TRIPS = 16
"""Trips that a loop is taken to make where nothing tells."""
DOWN = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Elements of an axis that does not lie along a CPU's lanes: each is unrolled."""
ACROSS = (1, 2, 3, 4, 6, 8)
"""Registers along a CPU's lanes."""
LONGEST = 1 << 15
"""Elements of one axis that a GPU's program takes at once: 64 of each thread of 16 warps."""
MOST = 4096
"""Combinations of sizes, warps and stages that are modelled together."""
MOST_KEPT = 64
"""Kinds of strides for which a kernel's loops are kept."""
LEAN = 32
"""Elements of an axis on a GPU where little fits."""
DEEP = 128
"""Bytes of a row of a dot's operand that a GPU's program takes at once: whole lines. Longer rows compile slowly."""
WHOLE = 256
"""Elements of a contracted axis that a GPU's program holds at once, at most, for the same reason."""
BESIDE = 8
"""Elements of an axis that is but a part of a dot's side."""
ENOUGH = 8
"""Elements of a dot's side that keep a CPU's accumulators busy."""
RAGGED = 16
"""Positions with steps of their own number that a GPU's program takes at once: all wait for the longest."""
WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4)
UNROLLED = 96
"""Registers' worth of one tile that CPU code is unrolled for, at most: more takes long to compile and is not faster."""


@dataclass(frozen=True)
class Move:
    """The decisions that are no sizes. Homes are those that are not the default. `cuts`: phases after which a launch
    begins."""

    held: frozenset[str] = frozenset()
    homes: tuple[tuple[str, Home], ...] = ()
    copies: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    lanes: str | None = None
    split: str | None = None
    online: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()


@dataclass
class Space:
    """A kernel in phases, the call's sizes, and what there is to decide within some limits. `lean`: small sizes alone,
    for limits that leave no room for others. `pin`: what is not to be decided, since the author has."""

    kernel: KernelOp
    needs: Needs
    sizes: Mapping[str, int]
    limits: Limits
    strides: Mapping[str, Sequence[int]] = field(default_factory=dict)
    lean: bool = False
    pin: Pin = NOTHING
    _readings: dict[frozenset[str], Reading] = field(default_factory=dict)
    _known: Known = field(default_factory=Known)

    @cached_property
    def extents(self) -> dict[str, int]:
        """Positions of axes, trips of ranges."""
        facts = Facts(self.sizes)
        found = {WHILE: UNKNOWN_TRIPS}
        for op in self.kernel.walk():
            if isinstance(op, TileOp | WholeOp):
                known = known_value(op.extent, facts)
                found[op.axis.data] = UNKNOWN_TRIPS if known is None else max(0, known)
        for op in self.kernel.walk():
            if isinstance(op, RangeOp):
                start, stop = known_value(op.start, facts), known_value(op.stop, facts)
                known = None if start is None or stop is None else max(0, stop - start)
                found[op.axis.data] = self._mean_trips(op, found) if known is None else known
        return found

    def _mean_trips(self, loop: RangeOp, extents: Mapping[str, int]) -> int:
        """Trips of a loop whose bounds are read: as if its positions' loops went once, together, through a tensor."""
        rows = math.prod(max(1, extents.get(axis, 1)) for axis in axes_of(loop.start))
        for op in loop.walk():
            if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType):
                for dimension, length in enumerate(op.base.type.shape):
                    offset = op.offset_of(dimension)
                    if offset is not None and loop.axis.data in range_axes(offset):
                        beside = [extents.get(axis, 1) for axis, _ in op.index.data[dimension].terms]
                        elements = self.sizes.get(length, 0) if isinstance(length, str) else length
                        return max(1, -(-elements // (rows * max(1, math.prod(beside)))))
        return UNKNOWN_TRIPS

    @cached_property
    def tiles(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.needs.axes if axis.is_tile)

    @cached_property
    def wholes(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.needs.axes if not axis.is_tile)

    @cached_property
    def ragged(self) -> frozenset[str]:
        """Axes whose positions make different numbers of steps."""
        return frozenset(a for op in self.kernel.walk() if isinstance(op, RangeOp) for a in axes_of(op.start))

    @cached_property
    def contracted(self) -> frozenset[str]:
        return frozenset(dot.axis for dot in self.needs.dots)

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """Axes that may lie along lanes, those first along which most accesses find elements side by side."""
        votes: Counter[str] = Counter()
        names = dict(zip(self.kernel.body.block.args, (p.data for p in self.kernel.parameters), strict=True))
        for op in self.kernel.walk():
            if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType) and len(op.index):
                strides = self.strides.get(names[op.base], (1,))  # type: ignore[index]
                fast = len(op.index) - 1 if 1 not in strides or len(strides) == 1 else list(strides).index(1)
                votes.update(axis for axis, coefficient in op.index.data[fast].terms if coefficient == 1)
            if isinstance(op, DotOp):
                votes[op.axis.data] -= 2
        axes = [*self.tiles, *self.wholes]
        ranked = sorted(axes, key=lambda axis: (-votes[axis], self.extents[axis] <= 1, axis in self.tiles))
        sides = {axis for dot in self.needs.dots for axis in (*dot.rows, *dot.columns)}
        able = [axis for axis in ranked if (votes[axis] > 0 or axis in sides) and axis not in self.ragged]
        return tuple(able) or tuple(ranked[:1])

    @cached_property
    def stored(self) -> frozenset[str]:
        """Tensors that the kernel writes with plain stores."""
        names = dict(zip(self.kernel.body.block.args, (p.data for p in self.kernel.parameters), strict=True))
        ops = [op for op in self.kernel.walk() if isinstance(op, StoreOp) and op.atomic is None]
        return frozenset(names[op.base] for op in ops if op.base in names)  # type: ignore[index]

    @cached_property
    def streamable(self) -> tuple[str, ...]:
        """Those of them whose rows begin at whole registers: only such stores can pass a CPU's caches."""
        found: list[str] = []
        for argument, parameter in zip(self.kernel.body.block.args, self.kernel.parameters, strict=True):
            if parameter.data in self.stored and isinstance(argument.type, TensorArgumentType):
                width = bytes_of(argument.type.element)
                steps = [stride * width for stride in self.strides[parameter.data] if stride != 1]
                if all(step % min(MOST_ALIGNED, self.limits.register_bytes) == 0 for step in steps):
                    found.append(parameter.data)
        return tuple(sorted(found))

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of what most lanes compute in."""
        tensors = [a.type for a in self.kernel.body.block.args if isinstance(a.type, TensorArgumentType)]
        return 8 if any(str(type_.element) == "f64" for type_ in tensors) else 4

    @property
    def width(self) -> int:
        """Elements of a vector register."""
        return max(1, self.limits.register_bytes // self.element_bytes)

    def holdable(self) -> Iterator[frozenset[str]]:
        """The sets of whole axes that may be held at once, none first."""
        most = self.width * UNROLLED if self.limits.warp == 1 else LONGEST
        able = [axis for axis in self.wholes if 1 < self.extents[axis] <= most]
        if self.limits.warp > 1:
            able = [axis for axis in able if axis not in self.contracted or self.extents[axis] <= WHOLE]
        always = frozenset(axis for axis in self.wholes if self.extents[axis] == 1)
        for number in range(1 << min(len(able), 4)):
            yield always | frozenset(axis for bit, axis in enumerate(able) if number >> bit & 1)

    @cached_property
    def cuts(self) -> tuple[str, ...]:
        """The phases after which a launch of its own can begin."""
        return cuts_of(self.kernel)

    @cached_property
    def can_go_online(self) -> tuple[str, ...]:
        """Whole axes along which a sum of exponentials follows the maximum that is taken from them."""
        found: list[str] = []
        if any(isinstance(op, MaxOp) for op in self.kernel.walk()):
            for axis in self.wholes:
                try:
                    self.loops(Move(order=self.tiles, lanes=self.lanes[0] if self.lanes else None, online=(axis,)))
                    found.append(axis)
                except PlanError:
                    continue
        return tuple(found)

    # Settings

    def setting(self, move: Move) -> Setting:
        """All sizes for some decisions. Raises `PlanError` where the kernel cannot have them."""
        return self.grid(move).only(True)

    def grid(self, move: Move) -> Setting:
        """The same, with an axis of the arrays for each choice: what depends on some of them alone stays small."""
        names = [*self.tiles, *self.wholes]
        choices = [self._choices(axis, move) for axis in names]
        on_gpu, pin = self.limits.warp > 1, self.pin
        warps = [n for n in WARPS if n * self.limits.warp <= self.limits.threads] or [1]
        choices.append([pin.warps] if pin.warps is not None else warps if on_gpu else [1])
        stages = list(STAGES) if on_gpu and self.needs.dots else [1]
        choices.append([pin.stages] if pin.stages is not None else stages)
        choices.append(self._shares(move))
        columns = _combinations(choices)
        sizes = dict(zip(names, columns, strict=False))
        return self.setting_with(move, sizes, *columns[len(names) :])

    def setting_with(
        self,
        move: Move,
        sizes: Mapping[str, Numbers],
        warps: Numbers,
        stages: Numbers,
        shares: Numbers,
        resident: Numbers = 0,
    ) -> Setting:
        """Given sizes for some decisions. Raises `PlanError` where the kernel cannot have them."""
        return Setting(
            self.loops(move), sizes, self.extents, move.order, move.held, move.lanes, dict(move.homes), move.copies,
            move.packs, move.streams, move.split, self.needs.splittable.get(move.split, ()) if move.split else (),
            shares, warps, stages, resident, move.online, move.cuts,
            phases_of_launches(self.kernel, move.cuts) if move.cuts else (),
        )  # fmt: skip

    def _as_loops_see(self, move: Move) -> Move:
        """Lanes order the loops over chunks, and decide nothing where there are none along them."""
        chunked = move.lanes in self.wholes and move.lanes not in move.held
        return move if chunked else replace(move, lanes=None)

    def _reading(self, held: frozenset[str], plan: Plan, facts: Facts) -> Reading:
        """The kernel as it is read while some whole axes are held at once."""
        if held not in self._readings:
            axes = resolve_axes(self.kernel, plan, facts)
            first = next(iter(self._readings.values()), None)
            self._readings[held] = Reading(self.kernel, axes) if first is None else first.under(axes)
        return self._readings[held]

    def loops(self, move: Move) -> tuple[Loop, ...]:
        """What runs in which loop. Raises `PlanError` where the kernel cannot have the decisions."""
        return self._loops_of(self._as_loops_see(move))

    def _loops_of(self, move: Move) -> tuple[Loop, ...]:
        key = (move.held, move.homes, move.copies, move.lanes, move.online, move.cuts)
        found = self._loops.get(key)
        if found is None:
            try:
                found = self._read(move)
            except PlanError as error:
                found = str(error)
            self._loops[key] = found
        if isinstance(found, str):
            raise PlanError(found)
        return found

    @cached_property
    def _loops(self) -> dict[tuple[Any, ...], tuple[Loop, ...] | str]:
        """Those read before, or why they cannot be: the same whatever sizes and limits, as far as strides are alike,
        and axes of one position or none are the same ones: any chunk holds those at once."""
        strides = tuple(
            (name, tuple((stride == 1, stride % MOST_ALIGNED) for stride in strides))
            for name, strides in sorted(self.strides.items())
        )
        alike = strides, tuple((axis, min(extent, 2)) for axis, extent in sorted(self.extents.items()))
        kept = self.needs.found
        if len(kept) >= MOST_KEPT:
            kept.clear()
        found: dict[tuple[Any, ...], tuple[Loop, ...] | str] = kept.setdefault(("loops", alike), {})
        return found

    def _read(self, move: Move) -> tuple[Loop, ...]:
        facts = Facts(dict(self.sizes), distinct=True)
        chunks = {axis: max(1, self.extents[axis]) if axis in move.held else 1 for axis in self.wholes}
        tiles = dict.fromkeys(self.tiles, 1)
        plan = Plan(tiles, chunks, dict(move.homes), move.copies, online=move.online, lanes=move.lanes)
        reading = self._reading(move.held, plan, facts)
        schedule = make_schedule(reading, plan, facts, find_copies(reading, plan))
        loops = read_loops(schedule, plan, self.strides, self._known)
        return cut_loops(loops, reading, self.tiles, move.cuts) if move.cuts else loops

    def _choices(self, axis: str, move: Move) -> list[int]:
        pinned = pinned_size(self.pin, axis)
        if pinned is not None:
            return [pinned]
        return [1] if axis in self._batches else self._sizes_of(axis, move)

    def _sizes_of(self, axis: str, move: Move) -> list[int]:
        extent = max(1, self.extents[axis])
        if self.limits.warp > 1:
            return self._on_gpu(axis, extent, move)
        if axis in move.held:
            return [extent]
        if axis in self.ragged:
            return [1]
        if axis in self._apart and axis != move.lanes:
            return [1]
        if axis == move.lanes:
            sizes = [n * self.width for n in (ACROSS[:1] if self.lean else ACROSS)]
            return sorted(
                {min(size, extent) for size in sizes} if axis in self.tiles else {s for s in sizes if s < extent} or {1}
            )
        chunked = axis in self.wholes
        down = DOWN[:2] if self.lean else DOWN
        return sorted({min(n, extent) for n in down if not (chunked and n >= extent)} or {1})

    def _on_gpu(self, axis: str, extent: int, move: Move) -> list[int]:
        above = power_above(extent)
        if axis in move.held:
            return [above]
        most = min(above, RAGGED) if axis in self.ragged and axis != move.lanes else above
        most = min(most, LONGEST if axis not in self._in_dots else 256)
        if axis in self.contracted:
            most = min(most, max(16, DEEP // self._operand_bytes))
        sizes = [1 << n for n in range(most.bit_length())]
        if axis in self.wholes:
            sizes = [n for n in sizes if n < extent] or [1]
        if self.lean:
            return [n for n in sizes if n <= LEAN] or sizes[:1]
        if axis in self._beside:
            return [n for n in sizes if n <= BESIDE]
        least = min(16, most) if axis in self._in_dots else 1
        return [n for n in sizes if n >= least] or sizes[-1:]

    @cached_property
    def _apart(self) -> frozenset[str]:
        """Axes that are a side of a dot together with a later one of elements enough. A CPU takes these one at a time:
        several images' rows at once leave no register free, and lie whole pages apart."""
        sides = [side for dot in self.needs.dots for side in (dot.rows, dot.columns)]
        return frozenset(axis for side in sides if side and self.extents[side[-1]] >= ENOUGH for axis in side[:-1])

    @cached_property
    def _batches(self) -> frozenset[str]:
        """Tile axes that all dots have as batches: taking several at once wins nothing."""
        each = [frozenset(dot.batch) for dot in self.needs.dots]
        return frozenset.intersection(*each) & frozenset(self.tiles) if each else frozenset()

    @cached_property
    def _beside(self) -> frozenset[str]:
        """Axes that are a side of a dot together with another, which comes after them."""
        return frozenset(axis for dot in self.needs.dots for side in (dot.rows, dot.columns) for axis in side[:-1])

    @cached_property
    def _in_dots(self) -> frozenset[str]:
        return frozenset(a for dot in self.needs.dots for a in (*dot.rows, *dot.columns, dot.axis))

    @cached_property
    def _operand_bytes(self) -> int:
        """Bytes of an element of the narrowest tensor of floats: what dots take."""
        types = [a.type.element for a in self.kernel.body.block.args if isinstance(a.type, TensorArgumentType)]
        return min((bytes_of(each) for each in types if str(each).startswith(("f", "bf"))), default=4)

    def _shares(self, move: Move) -> list[int]:
        if move.split is None:
            return [1]
        if move.split in self.pin.splits:
            return [self.pin.splits[move.split]]
        cores = self.limits.multiprocessors
        if self.limits.warp > 1:
            return [1 << n for n in range(1, most_shares(self.limits).bit_length())]
        return sorted({max(2, cores * n) for n in (1, 2, 4, 16, TIMES_CORES)})


def read_space(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    needs: Needs | None = None,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
) -> Space:
    """The space of a kernel, which is split into phases on a clone if it is not yet."""
    needs = annotate_needs(kernel) if needs is None else needs
    if not any(isinstance(op, PhaseOp) for op in kernel.walk()):
        module = ModuleOp([kernel.clone()])
        split_phases(module)
        kernel = next(op for op in module.ops if isinstance(op, KernelOp))
    return Space(kernel, needs, sizes, limits, {**_side_by_side(kernel, sizes), **(strides or {})}, pin=pin or NOTHING)


def _side_by_side(kernel: KernelOp, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The strides of tensors whose elements lie without gaps, those of the last dimension side by side."""
    strides: dict[str, tuple[int, ...]] = {}
    for argument, parameter in zip(kernel.body.block.args, kernel.parameters, strict=True):
        if isinstance(argument.type, TensorArgumentType):
            lengths = [sizes.get(n, 1) if isinstance(n, str) else n for n in argument.type.shape]
            strides[parameter.data] = tuple(math.prod(lengths[d + 1 :]) for d in range(len(lengths)))
    return strides


def _combinations(choices: list[list[int]]) -> list[Any]:
    """Every combination, as a column for each choice, along an axis of its own; the longest choices are thinned out
    where there are too many."""
    lists = [list(each) for each in choices]
    while math.prod(map(len, lists)) > MOST:
        longest = max(range(len(lists)), key=lambda number: len(lists[number]))
        lists[longest] = (
            sorted({*lists[longest][::2], lists[longest][-1]}) if len(lists[longest]) > 2 else lists[longest][-1:]
        )
    return list(np.ix_(*(np.array(each, dtype=np.float64) for each in lists)))
