"""The sizes that are worth a try under some structural choices, as a grid of plans."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..analysis.ahead import loads_ahead
from ..analysis.needs.traffic import narrow
from ..analysis.words import narrow_dot
from ..cost_model.atomics import AT_ONCE
from ..cost_model.gpu import waits_for_copies
from ..cost_model.item_widths import bytes_of, tensor_rate
from ..cost_model.plan_batch import BatchTerms, PlanBatch
from ..dialect import DotOp, axes_of
from ..dot_units import DOT_UNITS
from ..word_kinds import MATRIX_SIDE
from .bounds import TIMES_CORES, most_shares, power_above
from .space import MAX_GPU_SIZE, PlanSearchSpace, StructuralChoices

UNROLLED_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Elements of an axis that is not along a CPU's lanes: each is unrolled."""
LANE_REGISTERS = (1, 2, 3, 4, 6, 8)
"""Registers along a CPU's lanes."""
WHOLE_ROW_REGISTERS = 16
"""More of them along a tile axis of kernels without dots: as many as two rows of half the length have, which begin two
rows in turns."""
MAX_COMBINATIONS = 4096
"""Combinations of sizes, warps and stages that are modelled together."""
MAX_GPU_COMBINATIONS = 1 << 15
"""The same on a GPU, whose grids have an axis more for each part of a dot's side: thinned out to fewer, that of a
convolution has no tiles of 128 filters. Least times come first, and few of the plans are modelled further."""
LEAN_GPU_SIZE = 32
"""Elements of an axis on a GPU where little fits."""
DOT_ROW_BYTES = 128
"""Bytes of a row of a dot's operand that a GPU's program takes at once: whole lines. Longer rows compile slowly."""
SIDE_ROWS = 2
"""Times as much of an axis that is a side of another dot, where tensor cores read operands from shared memory: the more
of it at once, the fewer sums are rescaled. Elsewhere the registers that its operands take are worth more."""
MINOR_SIDE_SIZE = 8
"""Elements of an axis that is but a part of a dot's side."""
FULL_SIDE = 8
"""Elements of a dot's side that keep a CPU's accumulators busy."""
MAX_RAGGED = 16
"""Positions with steps of their own number that a GPU's program takes at once: all wait for the longest."""
WARP_COUNTS = (1, 2, 4, 8, 16)
MOST_GROUPED = 8
"""Warps of a program whose groups multiply what is in shared memory, at most: all of them meet in each chunk, and of
more no second program has room. By 16 in place of 8, an H200 took 345 us in place of 277 for a convolution, and 1007 in
place of 572 for an attention."""
STAGE_COUNTS = (1, 2, 3, 4)
"""Stages of loops with dots, which compilers pipeline."""
DEEP_STAGE_COUNTS = (6, 8)
"""More of them for tensor cores of NVIDIA, where one dot's operands are copied past the registers, unless other sizes
would be thinned out then: programs of small tiles have few bytes under way. An H200 took 55 us for 64 x 8192 x 8192 in
f16 with 4 stages, and 43 with 8."""
AHEAD_COUNTS = (1, 2, 4, 8, 16)
"""Stages of other loops: iterations whose loads are under way, which take registers."""


def plan_grid(space: PlanSearchSpace, choices: StructuralChoices) -> PlanBatch:
    """Every size worth a try under some choices: an axis of the arrays for each size, so that what depends on some of
    them alone stays small. Raises `PlanError` where the kernel cannot have the choices.
    """
    names = [*space.tiles, *space.wholes]
    sizes = _SizesToTry(space, choices)
    to_try = [sizes.of_axis(axis) for axis in names]
    on_gpu, pin = space.limits.warp > 1, space.pin
    most = MOST_GROUPED if space.limits.dots_from_shared and _on_tensor_cores(space, choices) else max(WARP_COUNTS)
    warps = [n for n in WARP_COUNTS if n <= most and n * space.limits.warp <= space.limits.threads] or [1]
    to_try.append([pin.warps] if pin.warps is not None else warps if on_gpu else [1])
    ahead = AHEAD_COUNTS if loads_ahead(space.kernel) else (1,)
    stages = [*(STAGE_COUNTS if space.needs.dots else ahead)] if on_gpu else [1]
    shares = sizes.shares()
    if not space.lean and _waits_for_memory(space, choices):
        others = math.prod(map(len, to_try)) * len(shares)
        if others * (len(stages) + len(DEEP_STAGE_COUNTS)) <= MAX_COMBINATIONS:
            stages += DEEP_STAGE_COUNTS
    to_try += [[pin.stages] if pin.stages is not None else stages, shares]
    terms = _terms(space, to_try, MAX_GPU_COMBINATIONS if on_gpu else MAX_COMBINATIONS)
    *columns, shares, warps, stages = terms.columns
    return space.batch_with(choices, dict(zip(names, columns, strict=True)), warps, stages, shares, terms=terms)


def _waits_for_memory(space: PlanSearchSpace, choices: StructuralChoices) -> bool:
    """Whether tensor cores multiply one dot's operands, which takes so little time that copies of them are behind."""
    is_one = len(space.needs.dots) == 1 and waits_for_copies(space.limits)
    return is_one and _on_tensor_cores(space, choices)


def _on_tensor_cores(space: PlanSearchSpace, choices: StructuralChoices) -> bool:
    """Whether tensor cores take dots of the kernel."""
    if not space.needs.dots:
        return False
    return any(tensor_rate(loop.tensor_dtype, space.limits) for loop in space.loops(choices) if loop.has_dots)


def _terms(space: PlanSearchSpace, to_try: list[list[int]], most: int) -> BatchTerms:
    """The columns of the grid, and what was computed of it before, under other choices."""
    key = tuple(map(tuple, to_try))
    if key not in space.grids:
        *sizes, warps, stages, shares = _combinations(to_try, most)
        space.grids[key] = BatchTerms(space.extents, (*sizes, shares, warps, stages))
    return space.grids[key]


def _combinations(choices: list[list[int]], most: int) -> list[Any]:
    """Every combination, as a column for each choice along its own axis. The longest choices are thinned out where
    there are more combinations than `most`."""
    lists = [list(each) for each in choices]
    while math.prod(map(len, lists)) > most:
        longest = max(range(len(lists)), key=lambda number: len(lists[number]))
        lists[longest] = (
            sorted({*lists[longest][::2], lists[longest][-1]}) if len(lists[longest]) > 2 else lists[longest][-1:]
        )
    return list(np.ix_(*(np.array(each, dtype=np.float64) for each in lists)))


@dataclass(frozen=True)
class _SizesToTry:
    space: PlanSearchSpace
    choices: StructuralChoices

    def of_axis(self, axis: str) -> list[int]:
        pinned = self.space.pin.size_of(axis)
        if pinned is not None:
            return [pinned]
        along_lanes = self.space.limits.warp == 1 and axis == self.choices.lanes
        return [1] if axis in self._batches and not along_lanes else self._sizes_of(axis)

    def _sizes_of(self, axis: str) -> list[int]:
        extent = max(1, self.space.extents[axis])
        if self.space.limits.warp > 1:
            return self._on_gpu(axis, extent)
        if axis in self.choices.held:
            return [extent, *self._padded(extent)] if axis == self.choices.lanes else [extent]
        if axis in self.space.ragged:
            return [1]
        if axis in self._apart and axis != self.choices.lanes:
            return [1]
        if axis == self.choices.lanes:
            sizes = [n * self.space.width for n in (LANE_REGISTERS[:1] if self.space.lean else LANE_REGISTERS)]
            if axis in self.space.tiles:
                sizes += [AT_ONCE] if self.choices.private_copies else []
                if not (self.space.lean or self.space.needs.dots):
                    sizes.append(WHOLE_ROW_REGISTERS * self.space.width)
                return sorted({*(min(size, extent) for size in sizes), *self._padded(extent)})
            return [size for size in sizes if size < extent] or [1]
        chunked = axis in self.space.wholes
        in_blocks = -(-extent // -(-extent // (2 * MATRIX_SIDE)))  # as many of each tile that fits in two blocks
        for_matrices = (*given, in_blocks) if (given := self._for_matrices.get(axis, ())) and not chunked else given
        down = UNROLLED_SIZES[:2] if self.space.lean else (*UNROLLED_SIZES, *for_matrices)
        tried = {min(n, extent) for n in down if not (chunked and n >= extent)}
        if chunked and not self.space.lean:  # a short axis is padded to what the unit contracts
            tried.update(n for n in self._for_matrices.get(axis, ()) if n > extent)
        return sorted(tried or {1})

    def _padded(self, extent: int) -> list[int]:
        """All positions along a CPU's lanes in whole registers, the last one masked, where ever narrower ones would be
        more."""
        width = self.space.width
        whole = -(-extent // width)
        narrower = extent // width + (extent % width).bit_count()
        return [whole * width] if whole < narrower and whole <= LANE_REGISTERS[-1] else []

    def _on_gpu(self, axis: str, extent: int) -> list[int]:
        above = power_above(extent)
        if axis in self.choices.held:
            return [above]
        most = min(above, MAX_RAGGED) if axis in self.space.ragged and axis != self.choices.lanes else above
        most = min(most, MAX_GPU_SIZE if axis not in self._in_dots else 256)
        if axis in self.space.contracted:
            rows = SIDE_ROWS if axis in self._sides and self.space.limits.dots_from_shared else 1
            most = min(most, max(16, rows * DOT_ROW_BYTES // self._operand_bytes.get(axis, 4)))
        sizes = [1 << n for n in range(most.bit_length())]
        if axis in self.space.wholes:
            sizes = [n for n in sizes if n < extent] or [1]
        if self.space.lean:
            return [n for n in sizes if n <= LEAN_GPU_SIZE] or sizes[:1]
        if axis in self._beside:
            return [n for n in sizes if n <= MINOR_SIDE_SIZE]
        least = min(MINOR_SIDE_SIZE if axis in self._after_others else 16, most) if axis in self._in_dots else 1
        return [n for n in sizes if n >= least] or sizes[-1:]

    @cached_property
    def _for_matrices(self) -> Mapping[str, tuple[int, ...]]:
        """Sizes of axes that a matrix unit takes beside those of others: its depth, and two blocks of rows."""
        units = [unit for name in self.space.limits.dot_units if (unit := DOT_UNITS[name]).is_matrix]
        found: dict[str, tuple[int, ...]] = {}
        for op in self.space.kernel.walk() if units else ():
            words = narrow_dot(op)
            taken = [unit.chunk for unit in units if words is not None and unit.takes(words.elements[0])]
            if taken and isinstance(op, DotOp):
                found |= dict.fromkeys(axes_of(op.result), (2 * MATRIX_SIDE,))
                found[op.axis.data] = tuple(taken)
        return found

    @cached_property
    def _apart(self) -> frozenset[str]:
        """Axes that form a side of a dot together with a later axis that has enough elements.

        A CPU takes them one at a time: rows of several images at once leave no register free, and are whole pages
        apart.
        """
        sides = [side for dot in self.space.needs.dots for side in (dot.rows, dot.columns)]
        return frozenset(
            axis for side in sides if side and self.space.extents[side[-1]] >= FULL_SIDE for axis in side[:-1]
        )

    @cached_property
    def _batches(self) -> frozenset[str]:
        """Tile axes that are batch axes of all dots: several positions at once win nothing, but along a CPU's lanes."""
        each = [frozenset(dot.batch) for dot in self.space.needs.dots]
        return frozenset.intersection(*each) & frozenset(self.space.tiles) if each else frozenset()

    @cached_property
    def _beside(self) -> frozenset[str]:
        """Axes that are a side of a dot together with another, which comes after them."""
        return frozenset(
            axis for dot in self.space.needs.dots for side in (dot.rows, dot.columns) for axis in side[:-1]
        )

    @cached_property
    def _after_others(self) -> frozenset[str]:
        """Axes that are a side of a dot together with others, which come before them: few of their positions may leave
        less over at the end, and the others fill the side."""
        sides = [side for dot in self.space.needs.dots for side in (dot.rows, dot.columns)]
        return frozenset(side[-1] for side in sides if len(side) > 1)

    @cached_property
    def _in_dots(self) -> frozenset[str]:
        return frozenset(a for dot in self.space.needs.dots for a in (*dot.rows, *dot.columns, dot.axis))

    @cached_property
    def _sides(self) -> frozenset[str]:
        return frozenset(a for dot in self.space.needs.dots for a in (*dot.rows, *dot.columns))

    @cached_property
    def _operand_bytes(self) -> Mapping[str, int]:
        """Bytes of an element of the narrowest operand of the dots that contract each axis."""
        found: dict[str, int] = {}
        for op in self.space.kernel.walk():
            if isinstance(op, DotOp):
                widths = [bytes_of(narrow(value).type) for value in (op.left, op.right)]
                found[op.axis.data] = min(found.get(op.axis.data, 8), *widths)
        return found

    def shares(self) -> list[int]:
        if self.choices.split is None:
            return [1]
        if self.choices.split in self.space.pin.splits:
            return [self.space.pin.splits[self.choices.split]]
        cores = self.space.limits.multiprocessors
        if self.space.limits.warp > 1:
            return [1 << n for n in range(1, most_shares(self.space.limits).bit_length())]
        return sorted({max(2, cores * n) for n in (1, 2, 4, 16, TIMES_CORES)})
