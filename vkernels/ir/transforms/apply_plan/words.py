"""Emit dots on a CPU's dot unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from ...analysis.words import EXTENSIONS, narrow_dot, only_user
from ...dialect import DotOp, LoadOp, WordDotOp, arith, axes_of, element_of
from .access import value_in
from .find_words import WordDot
from .frames import LoopFrame, broadcast
from .mapping_state import MappingState


def first_sum(state: MappingState, frame: LoopFrame, dot: DotOp) -> SSAValue:
    """The initial value of a dot's whole sum: what it is added to, and what a unit's offset adds too much."""
    value = value_in(state, frame, dot.sum)
    word = state.words.get(dot)
    if word is None or word.second not in state.excess:
        return value
    pack, buffer = state.excess[word.second]
    index: list[tuple[list[tuple[str, int]], SSAValue | None]]
    index = [([], state.coordinates[axis.name]) for axis in (*pack.batch, pack.tile)]
    type_ = state.tile_type(element_of(value), [pack.tile.name])
    load = LoadOp(buffer, [*index, ([(pack.tile.name, 1)], None)], type_)
    load.location = dot.location
    return frame.make(arith.AddiOp, value, broadcast(frame, frame.add(load), value.type))


def dot_step(
    state: MappingState, frame: LoopFrame, dot: DotOp, left: SSAValue, right: SSAValue, total: SSAValue
) -> SSAValue:
    """Emit a dot that adds to `total`: on a unit if its operands are words."""
    word = state.words.get(dot)
    if word is None:
        made: Operation = DotOp.create(
            operands=[left, right, total], properties=dot.properties, result_types=[total.type]
        )
    else:
        narrow = narrow_dot(dot)
        assert narrow is not None, "found as a dot of words"
        sides = (left, right) if narrow.operands[0] is word.first else (right, left)
        has_home = any(value in state.homes for value in (*narrow.operands, *(e.results[0] for e in narrow.extensions)))
        ordered = word.in_order(word.first, word.second)
        passing = _passing(state, dot, ordered) if _loads_once(word) and not has_home else None
        made = WordDotOp(*word.in_order(*sides), total, dot.axis.data, word.on.kind, passing)
    made.location = dot.location
    return frame.add(made)


def _loads_once(word: WordDot) -> bool:
    """Whether the unit loads operands by itself, each of their words once."""
    return word.on.unit.is_matrix and not word.on.unit.is_split


def _passing(state: MappingState, dot: DotOp, operands: Sequence[SSAValue]) -> str | None:
    """The operand, `left` or `right`, of which each next step of a loop around the dot, or else each next program,
    takes other elements, while those of the other operand stay; None where both change, or neither."""
    loops = [axis for axis in state.axes.values() if axis.is_chunked and axis.name != dot.axis.data]
    programs = [axis for axis in state.program_axes() if not axis.has_one_program]
    if state.plan.swizzle > 1 and state.has_all_tiles:
        programs[-2:] = reversed(programs[-2:])
    for axis in (*loops, *reversed(programs)):
        changing = [side for side, each in zip(("left", "right"), operands, strict=True) if axis.name in axes_of(each)]
        if changing:
            return changing[0] if len(changing) == 1 else None
    return None


def is_for_matrix(state: MappingState, extension: Operation) -> bool:
    """Whether a dot that takes an extension's words is on a matrix unit."""
    return any(word.on.unit.is_matrix for _, word in _words_of(state, extension))


def _words_of(state: MappingState, extension: Operation) -> Iterator[tuple[Operation, WordDot]]:
    """The dots on units that take an extension's words, in its phase or a later one."""
    for user in (only_user(extension.results[0]), *(use.operation for use in extension.results[0].uses)):
        if user is not None and user in state.words:
            yield user, state.words[user]


def joined_along(state: MappingState, extension: Operation) -> tuple[str, bool] | None:
    """The axis along which a dot's operand, which is no longer extended, becomes words, and whether its elements are
    split; None for other operations."""
    if not state.words or not isinstance(extension, EXTENSIONS):
        return None
    dot, word = next(_words_of(state, extension), (None, None))
    if word is None or state.analysis.source(extension.operands[0]) not in word.joined:
        return None
    assert isinstance(dot, DotOp), "words are of dots"
    return dot.axis.data, word.on.unit.is_split
