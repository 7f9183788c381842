"""Arithmetic on tiles and scalars: promote dtypes, join axes by name, and emit operations of upstream dialects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from xdsl.dialects import math
from xdsl.dialects.builtin import f64, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from vkernels.ir.dialect import BroadcastOp, PositionOp, arith
from vkernels.ir.errors import SourceError, TypeMismatchError

from ..dtypes import DEFAULT, WEAK, DType, PromotionError, bool_, float32, float64, int32, int64, result_type, weak_type
from ..operation import Mistake
from ..values import AddressableValue, Affine, Axis, Number, Scratch, Tile
from .affine import affine_binary
from .describe import PASS_IT, describe, is_outside_array, require_dtype
from .emitter import LocatedEmitter
from .operators import PYTHON, operation_of, relation_of
from .types import computed_element, is_rounded, memory_element, type_of

_MAX_POWER = 64

_BEYOND = {"float32": 2**128 - 2**103, "float64": 2**1024 - 2**970}
"""The least numbers that round to infinity."""


def is_number(value: Any) -> bool:
    """Whether a value is a Python number."""
    return isinstance(value, bool | int | float)


class Arithmetic(LocatedEmitter):
    """The part of the builder that computes."""

    def operand(self, value: Any) -> Tile | Number:
        """A number or tile unchanged; an axis or index expression as the tile of its positions."""
        if isinstance(value, Tile) or is_number(value):
            return value  # type: ignore[no-any-return]
        if isinstance(value, Axis | Affine):
            return self.positions(value)
        raise Mistake(
            TypeMismatchError, f"expected a tile or a number, found {describe(value)}", _load_it(value), value
        )

    def tile(self, value: Any, dtype: DType | None = None) -> Tile:
        """A value as a tile; numbers become constants of their own weak dtype, or of the given one."""
        value = self.operand(value)
        if isinstance(value, Tile):
            return value if dtype is None else self.convert(value, dtype)
        if dtype is not None:
            return self.convert(value, dtype)
        dtype = WEAK[type(value)]
        return Tile(self.constant(value, computed_element(dtype)), dtype, weak=True)

    def positions(self, index: Axis | Affine) -> Tile:
        """The values of an index expression at every position of its axes, int64."""
        if isinstance(index, Axis):
            return Tile(self.result(PositionOp(index.name)), int64, (index,))
        total: Any = index.offset
        for axis, coefficient in index.terms:
            term: Any = self.positions(axis)
            term = term if coefficient == 1 else self.binary("*", term, coefficient)
            total = term if total is None else self.binary("+", total, term)
        if total is None:
            return self.tile(index.constant)
        return self.binary("+", total, index.constant) if index.constant else total  # type: ignore[no-any-return]

    def meet(self, *values: Tile | Number) -> tuple[DType, bool]:
        """The common dtype of values, and whether it is weak."""
        tiles = [v.dtype for v in values if isinstance(v, Tile) and not v.weak and v.axes]
        scalars = [v.dtype for v in values if isinstance(v, Tile) and not v.weak and not v.axes]
        weak = [v.dtype if isinstance(v, Tile) else WEAK[type(v)] for v in values if not isinstance(v, Tile) or v.weak]
        try:
            if not tiles and not scalars:
                dtype = weak_type(weak)
                has_axes = any(isinstance(v, Tile) and v.axes for v in values)
                return (DEFAULT[dtype.kind], False) if has_axes else (dtype, True)
            return result_type(tiles, scalars, weak), False
        except PromotionError:
            found = " and ".join(dict.fromkeys(dtype.name for dtype in tiles + scalars))
            if any(dtype.is_f8 for dtype in tiles + scalars):
                help = "f8 meets no other dtype, as in torch: convert one with `.to(vk.float32)`."
            else:
                help = "No integer dtype holds the values of both: convert one, as with `.to(vk.int64)`."
            raise Mistake(TypeMismatchError, f"{found} do not promote", help) from None

    def convert(self, value: Tile | Number, dtype: DType) -> Tile:
        """A value in another dtype, not rounded: f16 and bf16 stay in f32."""
        element = computed_element(dtype)
        if not isinstance(value, Tile):
            return Tile(self._number(value, dtype), dtype)
        if value.dtype is dtype:
            return value if not value.weak else Tile(value.ssa, dtype, value.axes)
        source = computed_element(value.dtype)
        if source == element:
            return Tile(value.ssa, dtype, value.axes)
        target = type_of(element, value.axes)
        if not value.axes and not dtype.is_bool:
            key = ("convert", value.ssa, value.dtype, dtype)
            return Tile(self.once(key, lambda: self._conversion(value, dtype, target)), dtype)
        return Tile(self.result(self._conversion(value, dtype, target)), dtype, value.axes)

    def _number(self, value: Number, dtype: DType) -> SSAValue:
        if dtype.is_bool:
            return self.constant(bool(value), i1)
        if dtype.is_int:
            least, greatest = dtype.limits
            if not least <= int(value) <= greatest:
                raise Mistake(TypeMismatchError, f"{value} is not within the range of {dtype.name}", culprit=value)
            return self._integer(int(value), dtype)
        return self.constant(_as_float(value, dtype), computed_element(dtype))

    def _integer(self, value: int, dtype: DType) -> SSAValue:
        """The constant `value` modulo 2 to the dtype's bits, as a signed number."""
        half = 1 << (dtype.bits - 1)
        return self.constant((value + half) % (2 * half) - half, computed_element(dtype))

    def _conversion(self, value: Tile, dtype: DType, target: Attribute) -> Operation:
        source = value.dtype
        if dtype.is_bool:
            zero = self.broadcast(self.convert(0, source), value.axes).ssa
            return arith.CmpfOp(value.ssa, zero, "une") if source.is_float else arith.CmpiOp(value.ssa, zero, "ne")
        if source.is_bool:
            return arith.ExtUIOp(value.ssa, target) if dtype.is_int else arith.UIToFPOp(value.ssa, target)
        if source.is_int:
            if dtype.is_float:
                return (arith.UIToFPOp if source.is_uint else arith.SIToFPOp)(value.ssa, target)
            if dtype.bits < source.bits:
                return arith.TruncIOp(value.ssa, target)
            return (arith.ExtUIOp if source.is_uint else arith.ExtSIOp)(value.ssa, target)
        if dtype.is_int:
            return (arith.FPToUIOp if dtype.is_uint else arith.FPToSIOp)(value.ssa, target)
        return (arith.ExtFOp if computed_element(dtype) == f64 else arith.TruncFOp)(value.ssa, target)

    def cast(self, value: Any, dtype: Any) -> Tile:
        """A value in another dtype, rounded to it."""
        require_dtype(dtype)
        value = self.operand(value)
        if is_rounded(dtype) and (not isinstance(value, Tile) or value.dtype.is_float):
            value = self.tile(value, float64) if not isinstance(value, Tile) else value
            narrow = self.result(arith.TruncFOp(value.ssa, type_of(memory_element(dtype), value.axes)))
            return self.widened(narrow, dtype, value.axes)
        result = self.convert(value, dtype)
        return self.cast(Tile(result.ssa, float32, result.axes), dtype) if is_rounded(dtype) else result

    def bits(self, value: Any) -> Tile:
        """The bits of a float, in the dtype of the computation, as an integer."""
        tile = self.tile(value)
        if not tile.dtype.is_float:
            raise Mistake(TypeMismatchError, f"expected floats, found {describe(tile)}", culprit=value)
        element, dtype = (i64, int64) if computed_element(tile.dtype) == f64 else (i32, int32)
        return Tile(self.result(arith.BitcastOp(tile.ssa, type_of(element, tile.axes))), dtype, tile.axes)

    def from_bits(self, tile: Tile, dtype: DType) -> Tile:
        """The floats of a dtype, as it is computed, that have the bits of integers."""
        return Tile(
            self.result(arith.BitcastOp(tile.ssa, type_of(computed_element(dtype), tile.axes))), dtype, tile.axes
        )

    def widened(self, ssa: SSAValue, dtype: DType, axes: tuple[Axis, ...]) -> Tile:
        """Elements of memory, as a tile in the dtype of the computation."""
        if is_rounded(dtype):
            ssa = self.result(arith.ExtFOp(ssa, type_of(computed_element(dtype), axes)))
        return Tile(ssa, dtype, axes)

    def broadcast(self, tile: Tile, axes: tuple[Axis, ...]) -> Tile:
        """The tile with exactly these axes, in this order."""
        if tile.axes == axes:
            return tile
        ssa = self.result(BroadcastOp(tile.ssa, type_of(computed_element(tile.dtype), axes)))
        return Tile(ssa, tile.dtype, axes)

    def joined(self, tiles: Sequence[Tile]) -> list[Tile]:
        """Tiles broadcast to the union of their axes."""
        axes = join_axes([tile.axes for tile in tiles])
        return [self.broadcast(tile, axes) for tile in tiles]

    def elementwise(
        self, op: Callable[..., Operation], tiles: Sequence[Tile], dtype: DType, weak: bool = False
    ) -> Tile:
        """Apply an operation element by element; the result has all the tiles' axes, and elements of `dtype`."""
        tiles = self.joined(tiles)
        return Tile(self.result(op(*(tile.ssa for tile in tiles))), dtype, tiles[0].axes, weak and not tiles[0].axes)

    def binary(self, name: str, left: Any, right: Any) -> Any:
        """`left name right`: a number for two numbers, an index expression if the result is affine, else a tile."""
        if is_number(left) and is_number(right):
            return _python(name, left, right)
        if (affine := affine_binary(name, left, right)) is not None:
            return affine
        left, right = self.operand(left), self.operand(right)
        if name == "**":
            return self._power(left, right)
        dtype, weak = self.meet(left, right)
        if name == "/" and not dtype.is_float:
            dtype = float64 if weak else DEFAULT["float"]
        tiles = self.convert(left, dtype), self.convert(right, dtype)
        if (dtype.is_float and name in ("//", "%")) or (name == "%" and dtype.is_int and not dtype.is_uint):
            result = self._divide(name, *tiles) if dtype.is_float else self._int_remainder(*tiles)
            return Tile(result.ssa, dtype, result.axes, weak and not result.axes)
        return self.elementwise(operation_of(name, dtype), tiles, dtype, weak)

    def _int_remainder(self, left: Tile, right: Tile) -> Tile:
        rest = self.elementwise(arith.RemSIOp, (left, right), left.dtype)
        signs = self.elementwise(arith.XOrIOp, (rest, right), left.dtype)
        wrong = self.binary("&", self.compare("!=", rest, 0), self.compare("<", signs, 0))
        return self.where(wrong, self.binary("+", rest, right), rest)

    def _divide(self, name: str, left: Tile, right: Tile) -> Tile:
        """`//` or `%` of floats; the remainder has the divisor's sign. Exact for quotients below 2²⁴ (f32) or 2⁵³
        (f64)."""
        dtype = left.dtype
        ratio = self.elementwise(arith.DivfOp, (left, right), dtype)
        floor = self.elementwise(math.FloorOp, [ratio], dtype)
        rest = self.elementwise(math.FmaOp, (self.unary("-", floor), right, left), dtype)
        rest = self.where(self.compare("==", floor, 0.0), left, rest)  # whatever the divisor, infinity included
        product = self.binary("*", rest, right)
        low = self.binary("&", self.compare("!=", rest, 0.0), self.compare("<", product, 0.0))
        high = self.compare(">=", self._absolute(rest), self._absolute(right))
        if name == "%":
            nearer = self.where(high, self.binary("-", rest, right), rest)
            return self.where(low, self.binary("+", rest, right), nearer)
        one = self.convert(1.0, dtype)
        nearer = self.where(high, self.binary("+", floor, one), floor)
        quotient = self.where(low, self.binary("-", floor, one), nearer)
        undefined = self.binary("&", self.compare("!=", rest, rest), self.compare("!=", right, 0.0))
        return self.where(undefined, rest, quotient)

    def _absolute(self, value: Tile) -> Tile:
        return self.elementwise(math.AbsFOp, [value], value.dtype)

    def _power(self, left: Tile | Number, right: Tile | Number) -> Tile:
        dtype, weak = self.meet(left, right)
        if dtype.is_bool:
            dtype = int64
        if isinstance(left, Tile) and not isinstance(right, Tile):
            base = self.convert(left, dtype)
            if dtype.is_float and right == 0.5:
                return self.elementwise(math.SqrtOp, [base], dtype, weak)
            if right in range(_MAX_POWER + 1):
                result = self._multiplied(base, int(right))
                return Tile(result.ssa, dtype, result.axes, weak and not result.axes)
            if dtype.is_int and right < 0:
                raise Mistake(TypeMismatchError, "integers have no negative powers", "Convert to a float first.", right)
        operands = self.convert(left, dtype), self.convert(right, dtype)
        if dtype.is_uint:
            return self._uint_power(*operands)
        return self.elementwise(math.PowFOp if dtype.is_float else math.IPowIOp, operands, dtype, weak)

    def _uint_power(self, base: Tile, exponent: Tile) -> Tile:
        """A power modulo 2 to the bits. `math.ipowi` takes the exponent's top bit as its sign. For an odd base that bit
        changes nothing, since 2 to the (bits - 2) is a period of its powers; for an even base the result is 0."""
        dtype = base.dtype
        top = 1 << (dtype.bits - 1)
        power = self.elementwise(math.IPowIOp, (base, self.binary("&", exponent, top - 1)), dtype)
        is_even = self.compare("==", self.binary("&", base, 1), 0)
        return self.where(self.binary("&", is_even, self.compare(">=", exponent, top)), 0, power)

    def _multiplied(self, base: Tile, exponent: int) -> Tile:
        result: Tile | None = None
        while exponent:
            if exponent & 1:
                result = base if result is None else self.binary("*", result, base)
            exponent >>= 1
            if exponent:
                base = self.binary("*", base, base)
        return self.broadcast(self.convert(1, base.dtype), base.axes) if result is None else result

    def unary(self, name: str, value: Any) -> Any:
        """`-value`, `~value` or `+value`."""
        if is_number(value):
            return -value if name == "-" else ~value if name == "~" else +value
        if name == "+":
            return value
        if name == "-" and (affine := affine_binary("*", value, -1)) is not None:
            return affine
        tile = self.tile(value)
        dtype, axes = tile.dtype, tile.axes
        if name == "~":
            if dtype.is_float:
                raise Mistake(TypeMismatchError, f"`~` does not work on {dtype.name}", culprit=value)
            ones = self.convert(True, dtype) if dtype.is_bool else Tile(self._integer(-1, dtype), dtype)
            return self.elementwise(arith.XOrIOp, (tile, ones), dtype, tile.weak)
        if dtype.is_bool:
            raise Mistake(TypeMismatchError, "`-` does not work on bool", "To invert a mask, write `~mask`.", value)
        if dtype.is_float:
            return self.elementwise(arith.NegfOp, [tile], dtype, tile.weak)
        zero = self.broadcast(self.convert(0, dtype), axes)
        return self.elementwise(arith.SubiOp, (zero, tile), dtype, tile.weak)

    def compare(self, name: str, left: Any, right: Any) -> Any:
        """A comparison: bool for two numbers, else a tile of bool."""
        if is_number(left) and is_number(right):
            return PYTHON[name](left, right)
        left, right = self.operand(left), self.operand(right)
        dtype, weak = self.meet(left, right)
        tiles = self.convert(left, dtype), self.convert(right, dtype)
        op, relation = arith.CmpfOp if dtype.is_float else arith.CmpiOp, relation_of(name, dtype)
        return self.elementwise(lambda a, b: op(a, b, relation), tiles, bool_, weak)

    def where(self, condition: Any, left: Any, right: Any) -> Tile:
        """`left` where the condition holds, else `right`."""
        test = self.tile(condition)
        if not test.dtype.is_bool:
            raise Mistake(
                TypeMismatchError,
                f"expected a condition of bool, found {describe(test)}",
                "Compare it with something: `x != 0`.",
                condition,
            )
        left, right = self.operand(left), self.operand(right)
        dtype, weak = self.meet(left, right)
        if weak and test.axes:
            dtype, weak = DEFAULT[dtype.kind], False
        values = test, self.convert(left, dtype), self.convert(right, dtype)
        return self.elementwise(arith.SelectOp, values, dtype, weak)

    def mathematical(self, name: str, *values: Any) -> Tile:
        """An operation of the math dialect, by its class's name without `Op`, in the operands' common float dtype.

        Integers become float32.
        """
        operands = [self.operand(value) for value in values]
        dtype, weak = self.meet(*operands)
        if not dtype.is_float:
            dtype = float64 if weak else DEFAULT["float"]
        tiles = [self.convert(value, dtype) for value in operands]
        return self.elementwise(getattr(math, f"{name}Op"), tiles, dtype, weak)

    def extreme(self, name: str, left: Any, right: Any) -> Any:
        """The larger ("max") or smaller ("min") of two; NaN if either is NaN."""
        if is_number(left) and is_number(right):
            return PYTHON[name](left, right)
        left, right = self.operand(left), self.operand(right)
        dtype, _ = self.meet(left, right)
        tiles = self.convert(left, dtype), self.convert(right, dtype)
        return self.elementwise(operation_of(name, dtype), tiles, dtype)


def join_axes(all_axes: Sequence[tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """The union of axes: in the order of the first operand that has them all, else in order of first occurrence."""
    joined: dict[Axis, None] = {}
    for axes in all_axes:
        joined.update(dict.fromkeys(axes))
    for axes in all_axes:
        if len(axes) == len(joined):
            return axes
    return tuple(joined)


def _python(name: str, left: Number, right: Number) -> Any:
    try:
        return PYTHON[name](left, right)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise Mistake(SourceError, f"Python cannot compute this: {error}") from None


def _as_float(value: Number, dtype: DType) -> float:
    """A number as a float that `dtype` holds while it computes. Raises a `Mistake` for finite numbers beyond that."""
    name = "float64" if computed_element(dtype) == f64 else "float32"
    if _BEYOND[name] <= abs(value) != inf:
        bits = 0 if isinstance(value, float) else value.bit_length()
        text = str(value) if bits < 200 else f"an int of {bits} bits"
        raise Mistake(TypeMismatchError, f"{text} is beyond the range of {name}", 'Infinity is `float("inf")`.', value)
    return float(value)


def _load_it(value: Any) -> str:
    if isinstance(value, Scratch):
        return f"Load a tile of it: `{value.name}[{', '.join(axis.name for axis in value.axes)}]`."
    if isinstance(value, AddressableValue):
        return f"Load a tile of it: `{value.name}[…]`, one index a dimension."
    return PASS_IT if is_outside_array(value) else ""
