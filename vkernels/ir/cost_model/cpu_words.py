"""Which work of a loop is done on words, by a CPU's dot units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from ..analysis.words import (
    NarrowDot,
    carried_by,
    dots_sharing,
    load_of,
    narrow_dot,
    narrow_dots_along,
    only_user,
    shares_words,
)
from ..dialect import DotOp, ReadOp, axes_of, element_of
from ..dot_units import MATRIX_REGISTERS, OnUnit, units_for
from ..limits import Limits
from ..word_kinds import MATRIX_SIDE, SPLIT_ELEMENTS
from .core_rates import cpu_rates
from .loops import Axes, LiveTile, Loop, LoopAccess, LoopStep
from .plan_batch import Numbers, PlanBatch

OF_INTEGERS = 2.0
"""Operations of a multiply-add of integers without a unit: instructions counted, a product and an addition."""

TURNED = 5.0
"""Shuffles for each of 16 registers of words that are turned together: 64 exchanges and 16 joints, counted."""
SPLIT = 7.0
"""Operations that split an f16 and join its parts to those of another: seven instructions for each, counted."""
JOINING = 3
"""Vector registers of a loop that joins words: the pattern of its shuffles, and the rows that one takes from memory."""
AHEAD = 0.5
"""The part of the other operand's words, each in a register, that LLVM 22 loads before it needs them."""


@dataclass(frozen=True)
class Words:
    """What a loop does on words.

    `depths`: the elements that one element of an operation's registers holds, of 32 bits. `chains`: the links that
    each contracted element adds to the chain of a dot's sums. `operations`: of a dot for each element, or the part of
    an extension's that is left. `held`: where a matrix unit holds the tiles of these axes, which then take no vector
    registers; `sums`: those of sums, which it gives back, but not in the ranges that they are `kept_in`; `shapes`:
    whether it holds a tile of sums, and that tile's rows and columns. `joined`: in which plans elements that are
    loaded become words in registers; `by_unit`: in which a matrix unit takes them from memory; `split`: in which they
    are split into parts, each in words of its own; `passing`: in which it loads those in place past the first cache.
    `ahead`: the registers of words of these axes that are for all lanes.
    """

    depths: dict[Operation, Numbers] = field(default_factory=dict)
    chains: dict[Operation, Numbers] = field(default_factory=dict)
    operations: dict[Operation, Numbers] = field(default_factory=dict)
    held: dict[Axes, Numbers] = field(default_factory=dict)
    sums: dict[Axes, Numbers] = field(default_factory=dict)
    kept_in: dict[Axes, Axes] = field(default_factory=dict)
    shapes: list[tuple[Numbers, Numbers, Numbers]] = field(default_factory=list)
    joined: dict[Operation, Numbers] = field(default_factory=dict)
    by_unit: dict[Operation, Numbers] = field(default_factory=dict)
    split: dict[Operation, Numbers] = field(default_factory=dict)
    passing: dict[Operation, Numbers] = field(default_factory=dict)
    ahead: dict[Axes, Numbers] = field(default_factory=dict)


NO_WORDS = Words()


def words_of(loop: Loop, at: PlanBatch, limits: Limits) -> Words:
    """What a loop does on words under the plans: dots, their loads and extensions. A depth is 1 in plans whose chunks
    suit no unit. As `apply_plan/find_words.py` decides it."""
    choices = at.choices
    if not limits.dot_units or choices.lanes is None:
        return NO_WORDS
    found = Words()
    for step in loop.steps:
        narrow = narrow_dot(step.origin) if step.is_dot else None
        if narrow is not None and isinstance(step.origin, DotOp):
            _add(found, step.origin, narrow, loop, at, limits)
    return found


@dataclass(frozen=True)
class _Operand:
    """An operand of a dot before its `extension`, how it is loaded in the loop, if it is, and whether it is in words
    there: packed, or `in_home`. `is_extended`: in a home after its extension."""

    value: SSAValue
    extension: Operation
    touch: LoopAccess | None
    is_packed: bool
    in_home: bool
    is_extended: bool

    @property
    def is_in_words(self) -> bool:
        return self.is_packed or self.in_home

    @property
    def is_in_parts(self) -> bool:
        """Whether words that are split are there: a home of what is not extended has no room for them."""
        return self.is_packed or self.is_extended

    def lies_across(self, axis: str) -> bool:
        """Whether it is loaded from a tensor in rows along another axis."""
        touch = self.touch
        return not self.is_in_words and touch is not None and touch.home is None and touch.run != axis

    @property
    def is_computed(self) -> bool:
        """Whether the loop loads no tensor for it: then it is in registers, or in a home or scratchpad, which plans lay
        out."""
        load, touch = load_of(self.value), self.touch
        return load is None or touch is None or touch.home is not None


def _add(found: Words, dot: DotOp, narrow: NarrowDot, loop: Loop, at: PlanBatch, limits: Limits) -> None:
    """Add what the plans do of a dot on words."""
    axis, lanes = dot.axis.data, at.choices.lanes
    sides, ways, in_rows = _ways(dot, narrow, loop, at, limits)
    for other in dots_sharing(dot)[1:]:
        also = narrow_dot(other)
        _, theirs, rows = _ways(other, also, loop, at, limits) if also is not None else (None, [], True)
        ways, in_rows = [on for on in ways if on in theirs], in_rows & rows
    if sides is None or not ways or lanes is None:
        return
    first, second = sides
    is_on: Numbers = np.asarray(False)  # some unit
    is_split: Numbers = np.asarray(False)
    plain: Numbers = 1.0  # elements in 32 bits
    rate: Numbers = 1.0  # products of elements for each of words
    blocks: Numbers = 1.0  # words of a row that a matrix unit takes at once
    pairs: Numbers = 1.0  # rows, and columns, that a block unit takes at once
    for on in reversed(ways):
        suits = _suits(dot, on, second.value, at) & in_rows
        is_on, is_split = is_on | suits, np.where(suits, on.unit.is_split, is_split)
        plain = np.where(suits, float(on.unit.depth / on.unit.side), plain)
        rate = np.where(suits, float(on.unit.rate / on.unit.side), rate)
        blocks = np.where(suits, float(MATRIX_SIDE if on.unit.is_matrix else 1), blocks)
        pairs = np.where(suits, float(on.unit.side), pairs)
    on_matrix, core, vectors = np.asarray(blocks > 1), limits.core_costs, cpu_rates(limits).vectors
    for operand, side in ((first, 1.0), (second, blocks * pairs**2)):
        load = operand.value.owner
        found.depths[operand.extension] = plain * side
        found.operations[operand.extension] = np.where(
            is_on, _joining(operand, first, at, axis, plain, blocks, is_split, limits), 1.0
        )
        if isinstance(load, ReadOp):
            if operand.is_in_words or operand is second:
                found.depths[load] = np.where(is_split & (not operand.is_in_parts), 1.0, plain * side)
            found.joined[load] = is_on & ((not operand.is_in_words) | (is_split & (not operand.is_in_parts)))
            found.by_unit[load] = on_matrix
            found.split[load] = is_split
            if operand is second and not second.is_packed and not second.lies_across(axis):
                in_place = on_matrix & ~is_split & _are_read(second.touch, second.value, at)
                found.passing[load] = in_place & _passes(axes_of(second.value), axes_of(first.value), at)
    if not second.is_packed:
        ahead = AHEAD * at.tile(axes_of(second.value)) / plain
        found.ahead[axes_of(second.value)] = np.where(is_on & ~on_matrix, np.maximum(1, ahead), 1)
    found.depths[dot] = rate * blocks * pairs
    found.chains[dot] = np.where(on_matrix, core.matrix_latency / core.latency / blocks, 1 / pairs) / rate
    on_unit = np.where(on_matrix, vectors * core.matrix_row / blocks, 1 / pairs) / rate
    found.operations[dot] = np.where(is_on, on_unit, _plain_operations(dot))
    for value in (first.value, second.value, dot.result):
        held = found.held.get(axes_of(value), False)
        found.held[axes_of(value)] = np.logical_or(held, on_matrix)
    found.sums[axes_of(dot.result)] = found.held[axes_of(dot.result)]
    found.kept_in[axes_of(dot.result)] = carried_by(dot)
    rows = at.tile(each for each in axes_of(second.value) if each != axis)
    found.shapes.append((on_matrix, rows, at.size(lanes)))


def _ways(
    dot: DotOp, narrow: NarrowDot, loop: Loop, at: PlanBatch, limits: Limits
) -> tuple[tuple[_Operand, _Operand] | None, list[OnUnit], Numbers]:
    """The operand of a dot along the lanes and the other one, the units that can take them, and in which plans they
    are in rows; without what its operands share with other dots."""
    axis, lanes = dot.axis.data, at.choices.lanes
    along = [lanes in axes_of(value) for value in narrow.operands]
    if sum(along) != 1 or lanes == axis or lanes is None:
        return None, [], True
    number = along.index(True)
    first, second = (_operand(narrow, each, loop, at) for each in (number, 1 - number))
    if _touch(second.extension.results[0], loop) is not None:
        return None, [], True  # a home holds what was extended before
    if not _can_join(first, (lanes, axis)) or not _lies_side_by_side(second):
        return None, [], True
    are_packed = first.is_packed and second.is_packed
    across = second.lies_across(axis) or (not first.is_computed and first.lies_across(lanes))
    ways = units_for(limits.dot_units, narrow.elements[number], narrow.elements[1 - number])
    is_joined = [not side.is_packed and shares_words(narrow, side.value) for side in (first, second)]
    ways = [on for on in ways if (not any(is_joined) if on.unit.is_matrix else are_packed or (on.joins and not across))]
    others = [each for each in axes_of(first.value) if each not in (axis, lanes)]
    return (first, second), ways, np.asarray(are_packed | (at.tile(others) == 1))


def _operand(narrow: NarrowDot, number: int, loop: Loop, at: PlanBatch) -> _Operand:
    value, extension = narrow.operands[number], narrow.extensions[number]
    touch = _touch(value, loop)
    is_packed = touch is not None and touch.place in at.choices.packs
    extended = _touch(extension.results[0], loop)  # a home of what is extended for the dot is of words
    is_home = touch is not None and touch.is_laid_out and only_user(value) is extension
    return _Operand(value, extension, touch, is_packed, is_home or extended is not None, extended is not None)


def _touch(value: SSAValue, loop: Loop) -> LoopAccess | None:
    """How a value is loaded in a loop, from its home or a tensor; None where it is not."""
    return next((step.touch for step in loop.steps if step.touch is not None and step.origin is value.owner), None)


def _can_join(first: _Operand, axes: tuple[str, str]) -> bool:
    """Whether the operand along the lanes is packed, computed, or lies along one of these axes."""
    if first.is_in_words or first.is_computed:
        return True
    return first.touch is not None and first.touch.run in axes


def _lies_side_by_side(second: _Operand) -> bool:
    """Whether the other operand is packed, or loaded from a tensor in rows along one of its axes."""
    if second.is_packed:
        return True
    touch = second.touch
    is_loaded = load_of(second.value) is not None and touch is not None and touch.home is None
    return is_loaded and touch is not None and touch.run in axes_of(second.value)


def _joining(
    operand: _Operand, first: _Operand, at: PlanBatch, axis: str, plain: Numbers, blocks: Numbers, is_split: Numbers,
    limits: Limits,
) -> Numbers:  # fmt: skip
    """Operations for each element of an operand's extension that make words of it. Packed ones are words already.

    A word of n elements takes n - 1 shuffles, one of parts takes `SPLIT`. For a matrix unit words are written to
    memory, those of rows across the contracted axis turned before; it reads others where they are, if it can.
    """
    if operand.is_in_parts:
        return 0.0
    on_matrix, split = np.asarray(blocks > 1), SPLIT * is_split
    core, vectors = limits.core_costs, cpu_rates(limits).vectors
    shuffled, staging = core.shuffled * vectors, core.staged * vectors
    longer = 1 + core.chunked * np.log2(
        np.maximum(1, at.size(axis) / np.where(is_split, SPLIT_ELEMENTS, plain * MATRIX_SIDE))
    )
    if operand is first:
        is_turned = not operand.is_computed and operand.touch is not None and operand.touch.run == axis
        staged = shuffled * (plain - 1) + split + staging + TURNED * shuffled * is_turned
        return np.where(on_matrix, staged * longer, plain - 1) / plain * (is_split | (not operand.in_home))
    touch = operand.touch
    if operand.lies_across(axis) and touch is not None:  # whole blocks are turned
        run = at.size(touch.run or "")
        staged = staging + TURNED * shuffled * MATRIX_SIDE * np.ceil(run / MATRIX_SIDE) / run
    else:
        staged = staging * (is_split | ~_are_read(touch, operand.value, at))
    return (staged + split) * longer * on_matrix / (plain * MATRIX_SIDE)  # each element is for all lanes


def _suits(dot: DotOp, on: OnUnit, second: SSAValue, at: PlanBatch) -> Numbers:
    """In which plans a unit can take a dot."""
    size, columns = at.size(dot.axis.data), at.size(at.choices.lanes or "")
    rows = at.tile(axis for axis in axes_of(second) if axis != dot.axis.data)
    if not on.unit.is_matrix:
        side = on.unit.side
        return (np.mod(size, on.unit.depth) == 0) & (np.mod(rows, side) == 0) & (np.mod(columns, side) == 0)
    rows, columns = np.ceil(rows / MATRIX_SIDE), np.ceil(columns / MATRIX_SIDE)
    registers = narrow_dots_along(dot) * rows * columns + rows + columns
    return np.isin(size, on.unit.chunks) & (registers <= MATRIX_REGISTERS)


def _passes(axes: Axes, others: Axes, at: PlanBatch) -> Numbers:
    """In which plans programs that follow each other take other elements of an operand with these axes, and the same of
    one with the others. As `apply_plan/words.py` decides it."""
    programs = list(at.choices.order)
    if at.choices.swizzle > 1:
        programs[-2:] = reversed(programs[-2:])
    passes, stays = np.asarray(False), np.asarray(True)
    for axis in reversed(programs):
        if axis in axes or axis in others:
            changes = stays & np.asarray(at.trips(axis) > 1)
            passes, stays = passes | (changes & (axis in axes) & (axis not in others)), stays & ~changes
    return passes


def _are_read(touch: LoopAccess | None, second: SSAValue, at: PlanBatch) -> Numbers:
    """In which plans a matrix unit reads rows where they are."""
    if touch is None or touch.guarded or touch.scattered:
        return np.asarray(False)
    return np.asarray(_are_whole(second, at))


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


def moves_of_sums(axes: Axes, loop: Loop, at: PlanBatch, words: Words) -> Numbers:
    """How often a program takes the sums of these axes into a matrix unit and back."""
    carried = {each for each, _, _ in loop.reduced} if loop.axes else set()
    loops = () if axes in carried else loop.axes
    kept = words.kept_in[axes] if not loops else ()
    ranges = list(loop.ranges)
    while ranges and kept and ranges[-1] == kept[0]:
        ranges, kept = ranges[:-1], kept[1:]
    return at.all_trips((*loops, *ranges))


def shapes_differ(loops: Iterable[Words]) -> Numbers:
    """In which plans a matrix unit takes tiles of several shapes, so that its registers are set up again each time."""
    seen: list[tuple[Numbers, Numbers, Numbers]] = []
    differ: Numbers = False
    for words in loops:
        for on_matrix, rows, columns in words.shapes:
            for other_on, other_rows, other_columns in seen:
                is_other = (rows != other_rows) | (columns != other_columns)
                differ = differ | (on_matrix & other_on & is_other)
            seen.append((on_matrix, rows, columns))
    return differ
