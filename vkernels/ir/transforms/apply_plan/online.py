"""Online sums: a maximum and sums of exponentials relative to it along one axis, in one loop over its chunks.

The loop carries the maximum so far, a base slightly below it and the sums relative to the base (Milakov and Gimelshein,
2018; for dots Dao et al. 2022). The base moves up, and the sums are rescaled, only where the maximum exceeds it by more
than `SLACK`, because each rescaling rounds the sums; later rescalings reduce earlier rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...analysis.schedule.find_online import Online
from ...analysis.schedule.linear import Linear
from ...dialect import DotOp, MaxOp, SumOp, WordsOp, arith, axes_of, element_of, sizes_of
from ..block_sums.paths import RESCALED_ATTRIBUTE
from .access import value_in
from .emit import zeroed
from .frames import (
    LoopFrame,
    below,
    broadcast,
    broadcast_mask,
    conditional,
    filled,
    is_anywhere,
    joined,
    masked,
    put_aside,
    select,
)
from .mapping_state import MappingState
from .online_homes import Change, HomedDot, OverChunks
from .words import dot_step, joined_along

_INFINITY = float("inf")

SLACK = 8.0
"""How far an element may exceed the base. exp(8) times the largest sum of a length below 2^100 fits in f32."""


def slack_of(group: Online) -> float:
    """How far an element may exceed the base so that exponentials rounded to narrow elements remain finite."""
    return SLACK if math.isinf(group.largest) else min(SLACK, math.floor(math.log(group.largest)))


@dataclass
class OnlineSums:
    """A group in a loop over chunks of its axis.

    The loop carries the maximum and the base without the axis; for each sum a number for each position in a chunk, or
    on GPUs beside a dot one in all, for each dot its result; and, for each of them in which selects may hide
    exponentials, a tile that is 1 where the sum has one that is not hidden. Dots whose results are processed in chunks
    are accumulated in their homes instead; the loops over these chunks are inside of the loop, so that it carries
    little else: sums without the axis.
    """

    state: MappingState
    group: Online
    over_chunks: OverChunks

    @cached_property
    def _kept(self) -> list[tuple[SumOp | DotOp, Linear]]:
        """The sums that the loop carries."""
        group = self.group
        return [pair for pair in zip(group.totals, group.forms, strict=True) if pair[0] not in group.homed]

    @cached_property
    def _homed(self) -> dict[HomedDot, Linear]:
        """The dots that are accumulated in their homes."""
        group = self.group
        return {
            HomedDot(self.state, total, self.over_chunks): form
            for total, form in zip(group.totals, group.forms, strict=True)
            if isinstance(total, DotOp) and total in group.homed
        }

    def _is_complete(self, total: SumOp | DotOp) -> bool:
        """Whether the loop carries a sum over all positions so far."""
        if isinstance(total, DotOp):
            return True
        return self._has_dots if self.state.gpu else self.puts_aside and self.state.plan.lanes != self.axis

    @property
    def _has_dots(self) -> bool:
        """Whether the group has a dot. On a GPU its threads hold what a tile of numbers for each position would take,
        and a sum along a chunk of a dot's operand crosses a few threads of one warp."""
        return any(isinstance(total, DotOp) for total in self.group.totals)

    @property
    def puts_aside(self) -> bool:
        """Whether loops inside of the loop need its registers, so that what it carries is put aside meanwhile."""
        return bool(self._homed) and self.state.plan.lanes is not None

    @property
    def axis(self) -> str:
        return self.group.maximum.axis.data

    @property
    def results(self) -> list[SSAValue]:
        """The kernel's values that the loop computes."""
        return [self.group.maximum.result, *(total.results[0] for total, _ in self._kept)]

    def first_values(self, frame: LoopFrame) -> list[SSAValue]:
        """The initial maximum, base, sums and tiles of what is not hidden."""
        state, group = self.state, self.group
        low = filled(frame, state.mapped_type(group.maximum.result.type), -_INFINITY)
        types = [
            total.results[0].type if self._is_complete(total) else total.operands[0].type for total, _ in self._kept
        ]
        shown = [self._shown_type(self._operand(total)) for total, _ in self._hiding()]
        for dot in self._homed:
            dot.clear(frame)
        return [low, low, *(filled(frame, type_, 0) for type_ in (*map(state.mapped_type, types), *shown))]

    def next_values(self, frame: LoopFrame, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """The values with one more chunk."""
        group, (highest, base, *sums) = self.group, carried
        tile = value_in(self.state, frame, group.maximum.tile)
        low = filled(frame, tile.type, -_INFINITY)
        mask = below(frame, self.axis, self.state.axes[self.axis].size, tile.type)
        if mask is not None:
            tile = select(frame, mask, tile, low)
        found_here = frame.add(_copied(group.maximum, [tile], highest.type))
        grown = frame.make(arith.MaximumfOp, highest, found_here)
        most = frame.make(arith.AddfOp, base, filled(frame, base.type, slack_of(group)))
        is_higher = frame.add(arith.CmpfOp(grown, most, "ogt"))
        moved = select(frame, is_higher, grown, base)
        level = _finite(frame, moved, _is_lowest(frame, moved))
        scale = self._scale(frame, base, level, is_higher)
        values = self._path(frame, tile, level)
        made = self._all_grown(frame, sums, scale, values)
        hiding = self._hiding()
        shown = [
            frame.make(arith.MaximumfOp, before, self._shown(frame, total))
            for (total, _), before in zip(hiding, sums[len(made) :], strict=True)
        ]
        found = [grown, moved, *made, *shown]
        sides = [self._sides(frame, homed.dot, form, values) for homed, form in self._homed.items()]
        again = put_aside(frame, found) if self.puts_aside else lambda: found
        for homed, at_hand in zip(self._homed, sides, strict=True):
            homed.grow(frame, partial(self._all_sides, homed.dot, at_hand), self._apart(homed.dot))
        return again()

    def last_values(self, frame: LoopFrame, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """The maximum and the sums after the loop, as `results` lists them.

        As written, a row of -inf has -inf minus itself, and a row with NaN has NaN everywhere: exponentials that are
        not hidden are NaN.
        """
        group, (highest, base, *sums) = self.group, carried
        nowhere = _is_lowest(frame, highest)
        scale = _relative(frame, group, base, _finite(frame, highest, nowhere))
        shown = dict(zip([total for total, _ in self._hiding()], sums[len(self._kept) :], strict=True))

        def of_total(total: SumOp | DotOp) -> Change:
            if total in shown:
                change = self._of_selected(frame, shown[total], highest, base, scale)
            else:
                change = self._of_all(frame, highest, nowhere, scale)
            return partial(self._last, total, change)

        found = [highest]
        for (total, _), value in zip(self._kept, sums, strict=False):
            value = value if self._is_complete(total) else frame.add(SumOp(value, self.axis))
            found.append(of_total(total)(frame, value))
        for homed in self._homed:
            homed.finish(frame, of_total(homed.dot), [homed.dot.sum] if homed.dot.sum in group.inputs else [])
        return found

    def _last(self, total: SumOp | DotOp, change: Change, frame: LoopFrame, value: SSAValue) -> SSAValue:
        """A sum relative to the maximum, with what it begins with."""
        value = change(frame, value)
        if isinstance(total, DotOp) and total.sum in self.group.inputs:
            value = frame.make(arith.AddfOp, value, value_in(self.state, frame, total.sum))
        return value

    # In the loop

    def _scale(self, frame: LoopFrame, base: SSAValue, level: SSAValue, is_higher: SSAValue) -> SSAValue:
        """The factor of the sums: 1 unless the base moves, also where it is infinite. Sums in homes are rescaled.

        A CPU with a single base, or sums in homes, computes it only when that moves.
        """
        one = filled(frame, base.type, 1)
        is_single = prod(sizes_of(base.type).values()) == 1
        if not self._homed and (self.state.plan.lanes is None or not is_single):
            return select(frame, is_higher, _relative(frame, self.group, base, level), one)
        inside = LoopFrame(Block(), frame)
        scale = _relative(inside, self.group, base, level)
        scale = scale if is_single else select(inside, is_higher, scale, one)
        for homed in self._homed:
            homed.rescale(inside, scale)
        return conditional(frame, is_anywhere(frame, is_higher), inside, [scale], [one])[0]

    def _path(self, frame: LoopFrame, tile: SSAValue, level: SSAValue) -> dict[SSAValue, SSAValue]:
        """The values from the differences to the operands of the sums, relative to the base."""
        values: dict[SSAValue, SSAValue] = {}
        for op in self.group.path:
            if op in self.group.differences:
                operands = [tile, broadcast(frame, level, tile.type)]
            else:
                operands = [self._value(frame, operand, values) for operand in op.operands]
            if (joined := joined_along(self.state, op)) is not None:
                axis, is_split = joined
                mask = below(frame, axis, self.state.axes[axis].size, operands[0].type)
                made = frame.add(WordsOp(masked(frame, mask, operands[0], 0), axis, is_split=is_split))
            else:
                made = frame.add(_copied(op, operands, self.state.mapped_type(op.results[0].type)))
            values[op.results[0]] = made
        return values

    def _value(self, frame: LoopFrame, operand: SSAValue, values: dict[SSAValue, SSAValue]) -> SSAValue:
        operand = self.state.analysis.source(operand)
        return values[operand] if operand in values else value_in(self.state, frame, operand)

    def _all_grown(
        self, frame: LoopFrame, sums: Sequence[SSAValue], scale: SSAValue, values: dict[SSAValue, SSAValue]
    ) -> list[SSAValue]:
        """The sums with one more chunk, dots last: a matrix unit may still work on them when the next chunk begins, and
        what stands behind them would make it wait."""
        kept = list(enumerate(zip(self._kept, sums, strict=False)))
        made = {
            number: self._grown(frame, *pair, before, scale, values)
            for number, (pair, before) in sorted(kept, key=lambda each: isinstance(each[1][0][0], DotOp))
        }
        return [made[number] for number, _ in kept]

    def _grown(
        self,
        frame: LoopFrame,
        total: SumOp | DotOp,
        form: Linear,
        before: SSAValue,
        scale: SSAValue,
        values: dict[SSAValue, SSAValue],
    ) -> SSAValue:
        """A sum with one more chunk."""
        rescale = arith.MulfOp.create(
            operands=[before, broadcast(frame, scale, before.type)], result_types=[before.type]
        )
        rescale.attributes[RESCALED_ATTRIBUTE] = UnitAttr()
        if isinstance(total, SumOp):
            tile = self._inside(frame, self._value(frame, total.tile, values), form)
            tile = frame.add(SumOp(tile, self.axis)) if self._is_complete(total) else tile
            return frame.make(arith.AddfOp, frame.add(rescale), tile)
        sides = self._all_sides(total, self._sides(frame, total, form, values), frame)
        return dot_step(self.state, frame, total, sides[0], sides[1], frame.add(rescale))

    def _sides(
        self, frame: LoopFrame, dot: DotOp, form: Linear, values: dict[SSAValue, SSAValue]
    ) -> dict[SSAValue, SSAValue]:
        """The operand of a dot that is linear in the exponentials."""
        found = {}
        for side in (dot.left, dot.right):
            if self.state.analysis.source(side) in values:
                found[side] = self._inside(frame, self._value(frame, side, values), form)
        return found

    def _all_sides(self, dot: DotOp, at_hand: dict[SSAValue, SSAValue], frame: LoopFrame) -> list[SSAValue]:
        """Both operands of a dot, those that are not at hand made in a frame."""
        return [
            at_hand[side]
            if side in at_hand
            else zeroed(self.state, frame, side, value_in(self.state, frame, side), self.axis)
            for side in (dot.left, dot.right)
        ]

    def _apart(self, dot: DotOp) -> list[SSAValue]:
        """The operands of a dot that are made in the loops over its result."""
        path = {result for op in self.group.path for result in op.results}
        return [side for side in (dot.left, dot.right) if self.state.analysis.source(side) not in path]

    def _inside(self, frame: LoopFrame, value: SSAValue, form: Linear) -> SSAValue:
        """A value without what is out of range, where x is -inf and the exponentials are 0 already."""
        if not form.is_scaled or isinstance(value.owner, WordsOp):
            return value
        return masked(frame, below(frame, self.axis, self.state.axes[self.axis].size, value.type), value, 0)

    # What selects hide

    def _hiding(self) -> list[tuple[SumOp | DotOp, Linear]]:
        """The sums in which selects may hide exponentials."""
        return [(total, form) for total, form in zip(self.group.totals, self.group.forms, strict=True) if form.selects]

    def _operand(self, total: SumOp | DotOp) -> SSAValue:
        """The operand of a sum that is linear in the exponentials."""
        results = {result for op in self.group.path for result in op.results}
        sides = (total.left, total.right) if isinstance(total, DotOp) else (total.tile,)
        return next(side for side in sides if self.state.analysis.source(side) in results)

    def _shown_type(self, value: SSAValue) -> Attribute:
        """The type of a tile that says which elements of a value are not hidden."""
        return self.state.tile_type(element_of(self.group.maximum.result), axes_of(value))

    def _shown(self, frame: LoopFrame, total: SumOp | DotOp) -> SSAValue:
        """1 where a chunk of a sum's operand has an exponential that is not hidden."""
        operand = self._operand(total)
        shown = self._visible(frame, operand)
        return masked(frame, below(frame, self.axis, self.state.axes[self.axis].size, shown.type), shown, 0)

    def _visible(self, frame: LoopFrame, value: SSAValue) -> SSAValue:
        """1 where an element of a value depends on an exponential, else 0."""
        source = self.state.analysis.source(value)
        type_, op = self._shown_type(source), source.owner
        if op not in self.group.path:
            return filled(frame, type_, 0)
        assert isinstance(op, Operation)
        if isinstance(op, type(self.group.exponential)):
            return filled(frame, type_, 1)
        if isinstance(op, arith.SelectOp):
            condition = value_in(self.state, frame, op.operands[0])
            return select(frame, condition, *(self._visible(frame, side) for side in op.operands[1:]))
        sides = [
            self._visible(frame, side)
            for side in op.operands
            if self.state.analysis.source(side).owner in self.group.path
        ]
        found = sides[0] if len(sides) == 1 else frame.make(arith.MaximumfOp, *sides)
        return broadcast(frame, found, type_)

    # After the loop

    def _of_all(self, frame: LoopFrame, highest: SSAValue, nowhere: SSAValue, scale: SSAValue) -> Change:
        """A sum of all exponentials relative to the maximum: NaN for a row of -inf, unless it is guarded or empty."""
        axis = self.state.axes[self.axis]

        def scaled(at: LoopFrame, value: SSAValue) -> SSAValue:
            return at.make(arith.MulfOp, value, broadcast(at, scale, value.type))

        if axis.known == 0 or self.group.is_guarded:
            return scaled
        if axis.known is None:
            some = frame.add(arith.CmpiOp(value_in(self.state, frame, axis.extent), frame.number(0), "sgt"))
            nowhere = joined(frame, [nowhere, broadcast(frame, some, nowhere.type)])
        nan = _relative(frame, self.group, highest, highest)
        return lambda at, value: _selected(at, nowhere, nan, scaled(at, value))

    def _of_selected(
        self, frame: LoopFrame, shown: SSAValue, highest: SSAValue, base: SSAValue, scale: SSAValue
    ) -> Change:
        """A sum in which selects may hide exponentials: where the maximum is -inf or NaN, it is NaN if any is shown."""
        low = filled(frame, highest.type, -_INFINITY)
        is_strange = frame.add(arith.CmpfOp(highest, low, "uno" if self.group.is_guarded else "ule"))
        is_level = frame.add(arith.CmpfOp(highest, base, "oeq"))
        one = filled(frame, scale.type, 1)
        scale = select(frame, is_level, one, scale)
        nan = _relative(frame, self.group, low, low)
        shown = frame.add(MaxOp(shown, self.axis))
        is_shown = frame.add(arith.CmpfOp(shown, filled(frame, shown.type, 0), "ogt"))

        def corrected(at: LoopFrame, value: SSAValue) -> SSAValue:
            scaled = at.make(arith.MulfOp, value, broadcast(at, scale, value.type))
            return _selected(at, is_strange, _selected(at, is_shown, nan, value), scaled)

        return corrected


def _selected(frame: LoopFrame, mask: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
    """A select whose mask and first value may lack axes of the second."""
    return select(frame, broadcast_mask(frame, mask, other.type), broadcast(frame, one, other.type), other)


def _copied(op: Operation, operands: Sequence[SSAValue], type_: Attribute) -> Operation:
    """An operation with other operands."""
    return type(op).create(
        operands=operands,
        properties=op.properties,
        attributes=op.attributes,
        result_types=[type_],
        location=op.location,
    )


def _finite(frame: LoopFrame, level: SSAValue, is_lowest: SSAValue) -> SSAValue:
    """The base of the differences: 0 instead of -inf, which would give NaN although a higher element may follow."""
    return select(frame, is_lowest, filled(frame, level.type, 0), level)


def _relative(frame: LoopFrame, group: Online, value: SSAValue, base: SSAValue) -> SSAValue:
    """exp(value - base), by the kernel's own operations."""
    difference = next(iter(group.differences))
    made = frame.add(_copied(difference, [value, base], value.type))
    return frame.add(_copied(group.exponential, [made], value.type))


def _is_lowest(frame: LoopFrame, value: SSAValue) -> SSAValue:
    return frame.add(arith.CmpfOp(value, filled(frame, value.type, -_INFINITY), "oeq"))
