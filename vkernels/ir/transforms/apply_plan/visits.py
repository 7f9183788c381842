"""The chunks of an axis that a loop visits: bounds from the masks of what it computes, for the program at hand."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Operation, SSAValue

from ...analysis.masks.comparisons import LARGEST_LEAF
from ...analysis.masks.conditions import All, Any, Condition, Linear, NotNegative
from ...analysis.schedule.reach import Reach
from ...dialect import MaxOp, MinOp, SizeOp, arith, axes_of, element_of
from .access import excess_mask, value_in
from .frames import LoopFrame, Visited, joined, masked, select
from .mapping_state import MappingState


def visited(state: MappingState, frame: LoopFrame, axis: str, reach: Reach) -> Visited:
    """What to visit of an axis. What the conditions take from the kernel exists in the frame."""
    axes = {name for one in reach for name in _axes_of(one)} - {axis}
    at = state.target(frame, frozenset(axes) & state.analysis.chunked)
    key = ("visited", axis, reach, frame.span(axis))
    if key not in at.visits:
        firsts, lasts = zip(*(_Bounds(state, at, axis).range(one) for one in reach), strict=True)
        first = reduce(lambda a, b: at.combined(arith.MinSIOp, a, b), firsts)
        last = reduce(lambda a, b: at.combined(arith.MaxSIOp, a, b), lasts)
        at.visits[key] = Visited(first, last, firsts)
    return at.visits[key]


def values_of(reach: Iterable[Condition]) -> list[SSAValue]:
    """The values of the kernel that bounds are computed from."""
    return [value for one in reach for total in _sums_of(one) for value, _ in total.others]


def _sums_of(condition: Condition) -> list[Linear]:
    match condition:
        case NotNegative(total, fits):
            return [total, *(one for one, _ in fits)]
        case All(parts) | Any(parts):
            return [total for part in parts for total in _sums_of(part)]
    return []


def _axes_of(condition: Condition) -> set[str]:
    totals = _sums_of(condition)
    return {name for total in totals for name, _ in total.positions}


class _Bounds:
    """Emits bounds of one axis into a frame."""

    def __init__(self, state: MappingState, frame: LoopFrame, axis: str):
        self.state, self.frame, self.axis = state, frame, axis
        self.span = frame.span(axis)
        assert self.span.count is not None
        self.start = frame.number(0) if self.span.base is None else self.span.base
        self.stop = self.span.count
        self.tests: list[SSAValue] = []

    def range(self, condition: Condition) -> tuple[SSAValue, SSAValue]:
        """The first position of a chunk, and the end of positions."""
        low, high = self._bound(condition, 1), self._bound(condition, -1)
        one = self.frame.number(1)
        first = begin = self.start
        if low is not None:
            last = self._two(arith.SubiOp, self.stop, one)
            first = self._two(arith.MaxSIOp, self._two(arith.MinSIOp, self._tested(low, self.start), last), self.start)
            size = self.frame.number(self.state.axes[self.axis].size)
            chunks = self._two(arith.FloorDivSIOp, self._two(arith.SubiOp, first, self.start), size)
            begin = self._two(arith.AddiOp, self._two(arith.MuliOp, chunks, size), self.start)
        end = self.stop
        if high is not None:
            high = self._two(arith.AddiOp, self._tested(high, self.stop), one)
            high = self._two(arith.MaxSIOp, high, self._two(arith.AddiOp, first, one))
            end = self._two(arith.MinSIOp, self.stop, high)
        return begin, end

    def _tested(self, bound: SSAValue, otherwise: SSAValue) -> SSAValue:
        """A bound, unless an integer in it is so large that the comparison may have wrapped."""
        return select(self.frame, joined(self.frame, self.tests), bound, otherwise) if self.tests else bound

    def _two(self, kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        known = self.frame.known(left)
        if known == 0 and kind is arith.AddiOp:
            return right
        if known == 1 and kind is arith.MuliOp:
            return right
        return self.frame.combined(kind, left, right)

    def _bound(self, condition: Condition, sign: int) -> SSAValue | None:
        """The least position (sign 1) or the greatest (-1) at which a condition may hold; None if not bounded."""
        match condition:
            case NotNegative(total, fits) if total.coefficient(self.axis) * sign > 0:
                if any(one.has(self.axis) for one in _sums_of(condition)):
                    return None
                for one, bits in fits:
                    self._test(one, bits)
                return self._solved(total, sign)
            case All(parts):
                found = [bound for part in parts if (bound := self._bound(part, sign)) is not None]
                kind = arith.MaxSIOp if sign > 0 else arith.MinSIOp
                return reduce(lambda a, b: self._two(kind, a, b), found) if found else None
            case Any(parts):
                every = [self._bound(part, sign) for part in parts]
                kind = arith.MinSIOp if sign > 0 else arith.MaxSIOp
                found = [bound for bound in every if bound is not None]
                return reduce(lambda a, b: self._two(kind, a, b), found) if found and len(found) == len(every) else None
        return None

    def _solved(self, total: Linear, sign: int) -> SSAValue:
        """From rest + n * position >= 0, with the greatest rest: the position is at least -(rest // n), or at most
        rest // -n."""
        factor = total.coefficient(self.axis)
        rest = self._extreme(total, 1)
        found = self._two(arith.FloorDivSIOp, rest, self.frame.number(abs(factor)))
        return found if sign < 0 else self._two(arith.SubiOp, self.frame.number(0), found)

    def _extreme(self, total: Linear, sign: int, whole: bool = False) -> SSAValue:
        """The greatest (1) or least (-1) sum over positions of the program, without the axis unless `whole`."""
        found = self.frame.number(total.constant)
        for name, factor in total.positions:
            if name != self.axis or whole:
                found = self._plus(found, self._position(name, factor * sign > 0), factor)
        for value, factor in total.others:
            found = self._plus(found, self._other(value, factor * sign > 0), factor)
        return found

    def _plus(self, total: SSAValue, value: SSAValue, factor: int) -> SSAValue:
        if factor == -1:
            return self._two(arith.SubiOp, total, value)
        return self._two(arith.AddiOp, self._two(arith.MuliOp, value, self.frame.number(factor)), total)

    def _position(self, name: str, is_greatest: bool) -> SSAValue:
        """The first or last position of an axis in this frame."""
        span, size = self.frame.span(name), self.frame.number(self.state.axes[name].size)
        base = self.frame.number(0) if span.base is None else span.base
        if not is_greatest:
            return base
        one = self.frame.number(1)
        if self.state.axes[name].is_chunked and self.frame.holding(name).axis != name:
            assert span.count is not None
            return self._two(arith.SubiOp, span.count, one)  # all of the axis: the end is counted from 0
        count = size if span.count is None else self._two(arith.MinSIOp, span.count, size)
        return self._two(arith.AddiOp, base, self._two(arith.SubiOp, count, one))

    def _other(self, value: SSAValue, is_greatest: bool) -> SSAValue:
        """The greatest or least of an integer, or of a tile of integers, and a test that it is not too large."""
        found = self._reduced(value, is_greatest)
        if element_of(value) == i64 and not isinstance(value.owner, SizeOp) and self.frame.known(found) is None:
            for bound, relation in ((LARGEST_LEAF, "sle"), (-LARGEST_LEAF, "sge")):
                extreme = self._reduced(value, bound > 0)
                self._add_test(extreme, bound, relation)
        return found

    def _reduced(self, value: SSAValue, is_greatest: bool) -> SSAValue:
        key = ("extreme", value, is_greatest and bool(axes_of(value)))
        if key not in self.frame.cache:
            self.frame.cache[key] = self._reduce(value, is_greatest)
        return self.frame.cache[key]

    def _reduce(self, value: SSAValue, is_greatest: bool) -> SSAValue:
        made = value_in(self.state, self.frame, value)
        if axes := axes_of(made):
            element = element_of(made)
            assert isinstance(element, IntegerType)
            half = 1 << (element.width.data - 1)
            mask = excess_mask(self.state, self.frame, made.type)
            made = masked(self.frame, mask, made, -half if is_greatest else half - 1)
            for axis in axes:
                made = self.frame.add((MaxOp if is_greatest else MinOp)(made, axis))
        return made if made.type == i64 else self.frame.make(arith.ExtSIOp, made, type_=i64)

    def _test(self, total: Linear, bits: int) -> None:
        """Test that a sum fits in narrow integers at all positions."""
        for sign in (1, -1):
            extreme = self._extreme(total, sign, whole=True)
            limit = (1 << (bits - 1)) - 1 if sign > 0 else -(1 << (bits - 1))
            self._add_test(extreme, limit, "sle" if sign > 0 else "sge")

    def _add_test(self, value: SSAValue, bound: int, relation: str) -> None:
        known = self.frame.known(value)
        if known is not None and (known <= bound if relation == "sle" else known >= bound):
            return
        key = ("test", value, bound, relation)
        if key not in self.frame.cache:
            self.frame.cache[key] = self.frame.add(arith.CmpiOp(value, self.frame.number(bound), relation))
        if self.frame.cache[key] not in self.tests:
            self.tests.append(self.frame.cache[key])
