"""Vector registers and instructions that a CPU's loops take: what tiles are unrolled into."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..analysis.dot_order import MOST_ADDRESSES, MOST_IN_TURN
from ..analysis.words import narrow_dot
from ..dialect import ScanByOp
from ..limits import Limits
from .cpu_words import NO_WORDS, Words, depth_of, on_matrices, registers_of_joining, slots_of_tile, words_of
from .loops import LiveTile, Loop
from .plan_batch import Numbers, PlanBatch

EXPANDED = 9
"""Operations from which on something is a polynomial: it takes registers while it is computed."""
WITHIN = 2
"""Registers that each vector of a polynomial takes beside argument and result."""
BY_TURNS = 4
"""Registers for results of dots that do not fit, each of which is loaded, added to and stored in turn."""


def cpu_registers(at: PlanBatch, limits: Limits, everywhere: bool = False) -> Numbers:
    """Vector registers that the tiles alive at the worst point of a loop take.

    A loop around others moves its tiles through memory where they are too many, once for all of the inner loops'
    iterations: see `cpu_spills`. So such loops count only `everywhere`. Beside a loop that streams results of dots,
    straight code may do so too, once a program, as beside one whose sums a matrix unit gives back in memory. Of other
    straight code that runs once beside loops the largest tile counts: compilers go through it register by register, and
    what is beside it moves through memory at most once. So they do through straight code that a range repeats without
    dots, once an iteration, as `cpu_spills` counts, and in loops that scan one position at a time; but not where a
    reduction is waited for, and the tile is used again after it. Loops without dots beside loops with dots do what
    these need once for each of many products, so they may spill too.
    """
    worst: Numbers = 0
    streams = any(loop.rescaled for loop in at.loops)
    has_dots = any(loop.has_dots for loop in at.loops)
    given_back = on_matrices(iter(at.loops), at, limits)
    for loop in at.loops:
        may_spill = (has_dots and not loop.has_dots) if loop.axes else streams
        if everywhere or not (may_spill or _is_around_others(loop, at)):
            in_turn = _runs_once_beside_loops(loop, at) or (not has_dots and _is_repeated_alone(loop, at))
            taken = _largest(loop, at, limits) if in_turn and not everywhere else loop_registers(loop, at, limits)
            if not (in_turn or everywhere or has_dots) and (scanned := _scanned_by(loop)):
                one_each = reduce(np.logical_and, (at.size(axis) == 1 for axis in scanned))
                taken = np.where(one_each, _largest(loop, at, limits), taken)
            worst = np.maximum(worst, taken if loop.axes else np.where(given_back, 0, taken))
    return worst


def loop_registers(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """The same of one loop, whichever it is."""
    found, loop = at.terms.loops, at.alike(loop, at.choices.packs)
    key = "registers", loop, at.choices.lanes, _words_by(loop, at, limits)
    if key not in found:
        found[key] = _registers_of(loop, at, limits)
    return found[key]


def cpu_spills(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Registers that an iteration of a loop stores and loads, since there are not enough.

    What straight code makes of sums that a matrix unit gives back goes to stores register by register.
    """
    spilled = np.maximum(0, loop_registers(loop, at, limits) - limits.registers)
    return spilled if loop.axes else np.where(on_matrices(iter(at.loops), at, limits), 0, spilled)


def _runs_once_beside_loops(loop: Loop, at: PlanBatch) -> bool:
    """Whether a program goes through straight code once, and has loops beside it."""
    return not loop.axes and not loop.ranges and any(other.axes for other in at.loops)


def _is_repeated_alone(loop: Loop, at: PlanBatch) -> bool:
    """Whether a range repeats straight code, and no other code of its with tiles of as many axes."""
    if loop.axes or not loop.ranges:
        return False
    axes = {axis for step in loop.steps for axis in step.axes}
    beside = (other for other in at.loops if other is not loop and other.ranges == loop.ranges)
    return not any(axes <= set(step.axes) for other in beside for step in other.steps)


def _scanned_by(loop: Loop) -> set[str]:
    """The axes along which a loop scans by functions of the author's own."""
    return {step.reduced for step in loop.steps if isinstance(step.origin, ScanByOp) and step.reduced is not None}


def _largest(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Registers of the largest tile that is alive at the worst point of a loop."""
    return reduce(np.maximum, (_slots_of((alive,), at, limits) for alive in loop.live), 0)


def _is_around_others(loop: Loop, at: PlanBatch) -> bool:
    """Whether other loops run in each iteration of a loop."""
    depth = len(loop.axes)
    return depth > 0 and any(
        other.phase == loop.phase and len(other.axes) > depth and other.axes[:depth] == loop.axes for other in at.loops
    )


def _registers_of(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    taken = _taken(loop, at, limits)
    if loop.rescaled:
        streamed = taken - _slots_of(loop.rescaled, at, limits) + BY_TURNS
        taken = np.where(taken > limits.registers, streamed, taken)
    return taken


def cpu_streamed(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Registers' worth of results of dots that an iteration of a loop loads and stores, since they do not fit."""
    if not loop.rescaled:
        return 0
    return np.where(_taken(loop, at, limits) > limits.registers, _slots_of(loop.rescaled, at, limits), 0)


def _words_by(loop: Loop, at: PlanBatch, limits: Limits) -> frozenset[str]:
    """The packed tensors that decide what a loop does on words; none where it has no dot for a unit."""
    if not limits.dot_units or not any(step.is_dot and narrow_dot(step.origin) for step in loop.steps):
        return frozenset()
    return frozenset(at.choices.packs) & loop.places


def _taken(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Of tiles, of polynomials beside argument and result, and of a chunk with breaks, whose pieces are joined."""
    width, words = _lanes(loop.element_bytes, limits), words_of(loop, at, limits)
    polynomials = [WITHIN * slots(step.axes, at, width) for step in loop.steps if step.operations >= EXPANDED]
    joined = [slots(step.axes, at, width) for step in loop.steps if step.touch and step.touch.breaks]
    beside = reduce(np.maximum, [*polynomials, *joined], 0)
    return _slots_of(loop.live, at, limits, words) + beside + registers_of_joining(words)


def _slots_of(tiles: tuple[LiveTile, ...], at: PlanBatch, limits: Limits, words: Words = NO_WORDS) -> Numbers:
    return sum(
        words.ahead.get(alive.axes, 1) if alive.into_dot and at.choices.lanes not in alive.axes
        else slots_of_tile(alive, _taken_at_once(alive, at, _lanes(max(4, alive.element_bytes), limits)), words)
        for alive in tiles
    )  # fmt: skip


def _taken_at_once(tile: LiveTile, at: PlanBatch, width: int) -> Numbers:
    """Registers of a tile; of a chunk that a dot loads and multiplies with rows of few addresses those of one position,
    as `lowering/llvm/reductions.py` goes through it."""
    whole, beside, lanes = slots(tile.axes, at, width), tile.beside, at.choices.lanes
    if beside is None or lanes not in tile.axes or beside.contracted in (lanes, *at.choices.held):
        return whole
    one = slots(tuple(axis for axis in tile.axes if axis != beside.contracted), at, width)
    in_turn = at.size(beside.contracted) <= MOST_IN_TURN
    if not beside.adjacent and beside.tensor not in at.choices.packs:
        in_turn = in_turn & (at.tile(beside.rows) <= MOST_ADDRESSES)
    return np.where(in_turn, one, whole)


def cpu_unrolled(at: PlanBatch, limits: Limits) -> Numbers:
    """Instructions that the longest loop's body is unrolled into."""
    found = at.terms.loops
    longest: Numbers = 0
    for loop in (at.alike(each, at.choices.packs) for each in at.loops):
        key = "unrolled", loop, at.choices.lanes, _words_by(loop, at, limits)
        if key not in found:
            width, words = _lanes(loop.element_bytes, limits), words_of(loop, at, limits)
            found[key] = sum(
                slots(step.axes, at, width) * max(1, step.operations) / depth_of(step, words) * times
                for step, times in zip(loop.steps, loop.times, strict=True)
            )
        longest = np.maximum(longest, found[key])
    return longest


def _lanes(element_bytes: int, limits: Limits) -> int:
    return max(1, limits.register_bytes // element_bytes)


def slots(axes: tuple[str, ...], at: PlanBatch, width: int) -> Numbers:
    """Registers of a tile: vectors along the lanes, the last ones ever narrower; one an element without lanes."""
    if at.choices.lanes not in axes:
        return at.tile(axes)
    lanes = at.choices.lanes
    assert lanes is not None
    key = axes, lanes, width
    found = at.terms.slots.get(key)
    if found is None:
        along = at.size(lanes)
        narrower = _BITS[np.asarray(along % width, dtype=np.int64)]
        found = at.tile(axis for axis in axes if axis != lanes) * (along // width + narrower)
        at.terms.slots[key] = found
    return found


_BITS = np.array([number.bit_count() for number in range(257)], dtype=np.float64)
"""The number of ever narrower vectors for the rest of a row, by its elements."""
