"""Which work of a loop is done on words, by a CPU's dot units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from ..analysis.words import NarrowDot, narrow_dot, narrow_dots_beside
from ..dialect import DotOp, ReadOp, axes_of, element_of
from ..dot_units import MATRIX_REGISTERS, OnUnit, units_for
from ..limits import Limits
from ..word_kinds import MATRIX_SIDE
from .core_rates import cpu_rates
from .loops import Axes, LiveTile, Loop, LoopAccess, LoopStep
from .plan_batch import Numbers, PlanBatch

MATRIX_LATENCY = 13.0
"""Multiply-adds that take as long, one after another, as a matrix unit's product: 52 cycles, and 4 each, as of AMX."""

OF_INTEGERS = 2.0
"""Operations of a multiply-add of integers without a unit: instructions counted, a product and an addition."""

JOINING = 3
"""Vector registers of a loop that joins words: the pattern of its shuffles, and the rows that one takes from memory."""
AHEAD = 0.5
"""The part of the other operand's words, each in a register, that LLVM 22 loads before it needs them."""


@dataclass(frozen=True)
class Words:
    """What a loop does on words.

    `depths`: the elements that one element of an operation's registers holds, of 32 bits. `chains`: the links that each
    contracted element adds to the chain of a dot's sums. `operations`: of a dot for each element, or the part of an
    extension's that is left. `held`: where a matrix unit holds the tiles of these axes, which then take no vector
    registers; `sums`: those of sums, which it gives back. `joined`: in which plans elements that are loaded become
    words in registers; `by_unit`: in which a matrix unit loads them itself. `ahead`: the registers of words of these
    axes that are for all lanes.
    """

    depths: dict[Operation, Numbers] = field(default_factory=dict)
    chains: dict[Operation, Numbers] = field(default_factory=dict)
    operations: dict[Operation, Numbers] = field(default_factory=dict)
    held: dict[Axes, Numbers] = field(default_factory=dict)
    sums: dict[Axes, Numbers] = field(default_factory=dict)
    joined: dict[Operation, Numbers] = field(default_factory=dict)
    by_unit: dict[Operation, Numbers] = field(default_factory=dict)
    ahead: dict[Axes, Numbers] = field(default_factory=dict)


NO_WORDS = Words()


def words_of(loop: Loop, at: PlanBatch, limits: Limits) -> Words:
    """What a loop does on words under the plans: dots, their loads and extensions. A depth is 1 in plans whose chunks
    suit no unit. As `apply_plan/find_words.py` decides it."""
    choices = at.choices
    if not limits.dot_units or choices.lanes is None or choices.online:
        return NO_WORDS
    found = Words()
    for step in loop.steps:
        narrow = narrow_dot(step.origin) if step.is_dot else None
        if narrow is not None and isinstance(step.origin, DotOp):
            _add(found, step.origin, narrow, _touches(narrow, loop), at, limits)
    return found


def _touches(narrow: NarrowDot, loop: Loop) -> dict[ReadOp, LoopAccess]:
    """The accesses of a dot's loads; of those in the loop."""
    return {
        load: step.touch
        for step in loop.steps
        for load in narrow.loads
        if step.origin is load and step.touch is not None
    }


def _add(
    found: Words, dot: DotOp, narrow: NarrowDot, touches: dict[ReadOp, LoopAccess], at: PlanBatch, limits: Limits
) -> None:
    """Add what the plans do of a dot on words."""
    axis, lanes = dot.axis.data, at.choices.lanes
    along = [lanes in axes_of(load.result) for load in narrow.loads]
    if sum(along) != 1 or lanes == axis or len(touches) < 2:
        return
    number = along.index(True)
    first, second = narrow.loads[number], narrow.loads[1 - number]
    runs = {first: lanes, second: axis}
    joined = [load for load, touch in touches.items() if touch.place not in at.choices.packs]
    if any(touches[load].home is not None or touches[load].run != runs[load] for load in joined):
        return
    ways = units_for(limits.dot_units, narrow.elements[number], narrow.elements[1 - number])
    rows_are_read = joined == [second] and not touches[second].guarded
    ways = [on for on in ways if on.joins or not joined or (on.unit.is_matrix and rows_are_read)]
    if not ways:
        return
    plain: Numbers = 1.0  # elements in 32 bits
    blocks: Numbers = 1.0  # words of a row that a matrix unit takes at once
    pairs: Numbers = 1.0  # rows, and columns, that a block unit takes at once
    for on in reversed(ways):
        suits = _suits(dot, on, second.result, at)
        if on.unit.is_matrix and joined:
            suits = suits & _are_whole(second.result, at)
        plain = np.where(suits, float(on.unit.depth / on.unit.side), plain)
        blocks = np.where(suits, float(MATRIX_SIDE if on.unit.is_matrix else 1), blocks)
        pairs = np.where(suits, float(on.unit.side), pairs)
    on_matrix = np.asarray(blocks > 1)
    vectors = cpu_rates(limits).vectors
    for load, side in ((first, 1.0), (second, blocks * pairs**2)):
        extension = next(iter(load.result.uses)).operation
        found.depths[extension] = plain * side
        found.operations[extension] = np.where(plain > 1, 0.0, 1.0)
        if load not in joined or load is second:
            found.depths[load] = plain * side
        else:  # rows are loaded as they are, and a word of n elements takes n - 1 shuffles
            found.operations[extension] = np.where(plain > 1, (plain - 1) / plain, 1.0)
    if second in joined:
        ahead = AHEAD * at.tile(axes_of(second.result)) / plain
        found.ahead[axes_of(second.result)] = np.where((plain > 1) & ~on_matrix, np.maximum(1, ahead), 1)
    found.joined.update(dict.fromkeys(joined, plain > 1))
    found.by_unit.update(dict.fromkeys(joined, on_matrix))
    found.depths[dot] = plain * blocks * pairs
    found.chains[dot] = np.where(on_matrix, MATRIX_LATENCY / blocks, 1 / pairs) / plain
    on_unit = np.where(on_matrix, vectors / blocks, 1 / pairs) / plain
    found.operations[dot] = np.where(plain > 1, on_unit, _plain_operations(dot))
    for value in (first.result, second.result, dot.result):
        held = found.held.get(axes_of(value), False)
        found.held[axes_of(value)] = np.logical_or(held, on_matrix)
    found.sums[axes_of(dot.result)] = found.held[axes_of(dot.result)]


def _suits(dot: DotOp, on: OnUnit, second: SSAValue, at: PlanBatch) -> Numbers:
    """In which plans a unit can take a dot."""
    size, columns = at.size(dot.axis.data), at.size(at.choices.lanes or "")
    rows = at.tile(axis for axis in axes_of(second) if axis != dot.axis.data)
    if not on.unit.is_matrix:
        side = on.unit.side
        return (np.mod(size, on.unit.depth) == 0) & (np.mod(rows, side) == 0) & (np.mod(columns, side) == 0)
    rows, columns = np.ceil(rows / MATRIX_SIDE), np.ceil(columns / MATRIX_SIDE)
    registers = narrow_dots_beside(dot) * rows * columns + rows + columns
    return (size == on.unit.chunk) & (registers <= MATRIX_REGISTERS)


def _are_whole(value: SSAValue, at: PlanBatch) -> Numbers:
    """In which plans no tile or chunk of a value has positions out of range."""
    return reduce(np.logical_and, (np.mod(at.extents[axis], at.size(axis)) == 0 for axis in axes_of(value)))


def depth_of(step: LoopStep, words: Words) -> Numbers:
    """Elements that one element of a step's registers holds."""
    return 1.0 if step.origin is None else words.depths.get(step.origin, 1.0)


def registers_of_joining(words: Words) -> Numbers:
    """Vector registers that loops take which join words: see `JOINING`."""
    joined = (which & ~words.by_unit[load] for load, which in words.joined.items())
    return JOINING * reduce(np.logical_or, joined, False)


def part_extended(step: LoopStep, words: Words) -> Numbers:
    """The part of what a step loads that is extended, element by element: 0 where it becomes words."""
    joined = None if step.origin is None else words.joined.get(step.origin)
    return 1.0 if joined is None else np.where(joined, 0.0, 1.0)


def chain_of(step: LoopStep, words: Words) -> Numbers:
    """Links of the chain of a dot's sums for each contracted element."""
    return 1.0 if step.origin is None else words.chains.get(step.origin, 1.0)


def operations_of(step: LoopStep, words: Words) -> Numbers:
    """Operations for each element, in registers of words a part of one: a dot's products at once, an extension none."""
    given = None if step.origin is None else words.operations.get(step.origin)
    if step.is_dot:
        return _plain_operations(step.origin) if given is None else given
    return step.operations if given is None or step.touch is not None else step.operations * given


def _plain_operations(dot: Operation | None) -> float:
    """Operations of a dot's multiply-add without a unit."""
    return 1.0 if dot is None or isinstance(element_of(dot.results[0]), AnyFloat) else OF_INTEGERS


def slots_of_tile(tile: LiveTile, slots: Numbers, words: Words) -> Numbers:
    """The vector registers that a live tile takes, which would take `slots` without words."""
    sides = ((op, depth) for op, depth in words.depths.items() if not isinstance(op, DotOp))
    depth = next((depth for op, depth in sides if _axes(op) == tile.axes), 1.0)
    return np.where(words.held.get(tile.axes, False), 0.0, slots / depth)


def _axes(op: Operation) -> Axes:
    return axes_of(op.results[0])


def on_matrices(loops: Iterator[Loop], at: PlanBatch, limits: Limits) -> Numbers:
    """In which plans a matrix unit takes part in some of the loops."""
    found: Numbers = False
    for loop in loops:
        for held in words_of(loop, at, limits).held.values():
            found = np.logical_or(found, held)
    return found
