"""Operations along whole axes: reductions, scans, contraction."""

from __future__ import annotations

from typing import Any

from vkernels.ir.dialect import DotOp, ScanOp
from vkernels.ir.dialect.combining import REDUCTION_OF
from vkernels.ir.errors import AxisError, SourceError, TypeMismatchError

from ..dtypes import DType, bool_, float32, int32, int64, uint32
from ..operation import Mistake
from ..values import Axis, Tile
from .access import combination
from .contracted_axis import contracted_axis
from .describe import describe
from .emitter import listed
from .scaled import ScaledOperands
from .types import computed_element


class WholeAxes(ScaledOperands):
    """The part of the builder that combines elements along axes."""

    def whole_axis(self, tile: Tile, axis: Any, value: Any) -> Axis:
        """The whole axis that an operation runs along: the given one, or the tile's only one."""
        whole = [a for a in tile.axes if a.kind == "whole"]
        if axis is None:
            if len(whole) == 1:
                return whole[0]
            found = f"it has {listed(whole)}" if whole else f"{describe(tile)} has none"
            raise Mistake(AxisError, f"expected a tile with one whole axis, {found}", _which_axis(tile, whole), value)
        if not isinstance(axis, Axis):
            raise Mistake(
                TypeMismatchError,
                f"expected an axis, found {describe(axis)}",
                "It is what `j = vk.whole(…)` gives.",
                axis,
            )
        if axis not in tile.axes:
            axes = f"it has {listed(tile.axes)}" if tile.axes else "it has no axis"
            raise Mistake(AxisError, f"the tile does not have the axis `{axis.name}`, {axes}", culprit=axis)
        if axis.kind != "whole":
            raise Mistake(
                AxisError,
                f"`{axis.name}` is a tile axis: its positions are split over programs",
                _made_whole(axis),
                axis,
            )
        return axis

    def reduce(self, kind: str, value: Any, axis: Any) -> Tile:
        """Reduce a tile along an axis or a tuple of axes."""
        tile = self.tile(value)
        if isinstance(axis, tuple):
            for one in axis:
                tile = self.reduce(kind, tile, one)
            return tile
        along = self.whole_axis(tile, axis, value)
        tile = self._summable(tile, kind)
        axes = tuple(a for a in tile.axes if a is not along)
        op = REDUCTION_OF[combination(kind, tile.dtype)]
        return Tile(self.result(op(tile.ssa, along.name)), tile.dtype, axes)

    def count(self, mask: Tile, along: Axis) -> Tile:
        """How many elements of a mask are true along an axis of fewer than 2³¹ positions; int32."""
        ones = self.convert(mask, int32)
        axes = tuple(axis for axis in ones.axes if axis is not along)
        return Tile(self.result(REDUCTION_OF["sum"](ones.ssa, along.name)), int32, axes)

    def counts(self, mask: Tile, along: Axis) -> Tile:
        """How many elements of a mask are true up to each along such an axis; int32."""
        ones = self.convert(mask, int32)
        return Tile(self.result(ScanOp("sum", ones.ssa, along.name)), int32, ones.axes)

    def reduced(self, kind: str, tile: Tile, axes: tuple[Axis, ...]) -> Tile:
        """A tile combined along whole axes, in its own dtype."""
        return self.convert(self.reduce(kind, tile, axes), tile.dtype)

    def scan(self, kind: str, value: Any, axis: Any) -> Tile:
        """Combine every element with all before it along an axis."""
        tile = self.tile(value)
        along = self.whole_axis(tile, axis, value)
        tile = self._summable(tile, kind)
        op = ScanOp(combination(kind, tile.dtype), tile.ssa, along.name)
        return Tile(self.result(op), tile.dtype, tile.axes)

    def _summable(self, tile: Tile, kind: str) -> Tile:
        """Integers are summed and multiplied in int64, as in torch; bool has no maximum or minimum."""
        if kind in ("sum", "product"):
            return tile if tile.dtype.is_float else self.convert(tile, int64)
        if tile.dtype is bool_:
            raise Mistake(TypeMismatchError, f"`vk.{kind}` does not work on bool", "Use `vk.any` or `vk.all`.")
        return tile

    def dot(self, left: Any, right: Any, acc: Any, axis: Any, precision: Any, scales: tuple[Any, Any]) -> Tile:
        """Sum products along the whole axis that both operands share, or the given ones. `scales`: of each operand,
        or None."""
        if isinstance(axis, tuple) and axis:
            first = self._contracted_first(left, right, axis)
            found = self.dot(left, right, None, first, precision, scales)
            total = self.reduced("sum", found, tuple(other for other in axis if other is not first))
            return total if acc is None else self.binary("+", self._initial(acc, total.dtype, total.axes), total)
        a, b = self.tile(left), self.tile(right)
        along = self._contracted(a, b, axis)
        if precision not in ("ieee", "tf32"):
            raise Mistake(SourceError, f"there is no precision {precision!r}", 'It is "ieee" or "tf32".', "precision")
        if scales == (None, None):
            dtype = _accumulator(self.meet(a, b)[0])
            return self._dot((self.convert(a, dtype), self.convert(b, dtype)), acc, along, precision)
        first, *rest = self.scaled_pairs((left, right), scales)
        total = self._dot(first, acc, along, precision)
        for pair in rest:
            total = self.binary("+", total, self._dot(pair, None, along, precision))
        return total

    def _contracted_first(self, left: Any, right: Any, axes: tuple[Any, ...]) -> Any:
        """Of several axes, the one to contract; the first, where one of them is none."""
        named = {each.name: each for each in axes if isinstance(each, Axis)}
        if len(named) < len(axes):
            return axes[0]
        return named[contracted_axis([self.tile(left).ssa, self.tile(right).ssa], [*named])]

    def _dot(self, operands: tuple[Tile, Tile], acc: Any, along: Axis, precision: str) -> Tile:
        a, b = operands
        axes = tuple(x for x in joined_in_order(a, b) if x is not along)
        total = self._initial(acc, a.dtype, axes)
        op = DotOp(a.ssa, b.ssa, total.ssa, along.name, precision)
        return Tile(self.result(op), a.dtype, axes)

    def _contracted(self, a: Tile, b: Tile, axis: Any) -> Axis:
        shared = [x for x in a.axes if x in b.axes and x.kind == "whole"]
        if axis is not None:
            for tile in (a, b):
                self.whole_axis(tile, axis, axis)
            return axis  # type: ignore[no-any-return]
        if len(shared) == 1:
            return shared[0]
        found = f"they share {listed(shared)}" if shared else "they share none"
        raise Mistake(
            AxisError,
            f"expected two tiles that share one whole axis, {found}",
            "Say along which: `axis=k`, or `axis=(c, k)`."
            if shared
            else f"The first is {describe(a)}, the second {describe(b)}.",
        )

    def _initial(self, acc: Any, dtype: DType, axes: tuple[Axis, ...]) -> Tile:
        if acc is None:
            return self.broadcast(self.convert(0, dtype), axes)
        given = self.operand(acc)
        tile = self.convert(given, dtype) if not isinstance(given, Tile) or given.weak else given
        if tile.dtype is not dtype and computed_element(tile.dtype) != computed_element(dtype):
            raise Mistake(
                TypeMismatchError,
                f"the accumulator is {describe(tile)}, the products are added in {dtype.name}",
                f"Convert it: `.to({dtype!r})`.",
                acc,
            )
        if any(axis not in axes for axis in tile.axes):
            raise Mistake(AxisError, f"the accumulator is {describe(tile)}, the result has {listed(axes)}", culprit=acc)
        return self.broadcast(tile, axes)


def joined_in_order(a: Tile, b: Tile) -> tuple[Axis, ...]:
    """The first tile's axes, then the other axes of the second."""
    return (*a.axes, *(axis for axis in b.axes if axis not in a.axes))


def _accumulator(dtype: DType) -> DType:
    """The dtype of sums of products: f32 for shorter floats, int32 for shorter integers, uint32 for uint16."""
    if dtype.is_float:
        return dtype if dtype.bits >= 32 else float32
    if dtype.bits > 32:
        return dtype
    return uint32 if dtype.is_uint and dtype.bits > 8 else int32


def _which_axis(tile: Tile, whole: list[Axis]) -> str:
    """What would help where no axis is given: the tile has several whole ones, or none."""
    if whole:
        return "Say along which: `axis=…`."
    if not tile.axes:
        return "It is one value already."
    return f"The positions of `{tile.axes[0].name}` are split over programs. {_made_whole(tile.axes[0])}"


def _made_whole(axis: Axis) -> str:
    return f"To combine all of them in one program, declare `{axis.name} = vk.whole(…)`."
