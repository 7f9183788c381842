"""Complex numbers as pairs of real ones: loads and stores of both parts, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkernels.ir.errors import AxisError, TypeMismatchError, UnsupportedError

from ..dtypes import DType, float32
from ..operation import Mistake
from ..values import (
    AddressableValue,
    Axis,
    ComplexScratch,
    ComplexTensor,
    ComplexTile,
    Number,
    SubscriptReference,
    Tile,
)
from .access import declared
from .arithmetic import is_number, join_axes
from .describe import describe
from .packed import PackedBuilder

_WHAT_WORKS = (
    "Complex numbers have `+ - * / ==`, whole powers, `vk.abs`, `vk.conj`, `vk.sum`, `vk.mean` and `vk.dot`; all "
    "operations work on their parts, `z.real` and `z.imag`."
)
_MAX_POWER = 64


def is_complex(value: Any) -> bool:
    """Whether a value is complex: a tile, or a number that is known while building."""
    return isinstance(value, ComplexTile | complex)


class ComplexBuilder(PackedBuilder):
    """Builds kernels whose tensors and tiles may be complex.

    A part that is the number 0 is nothing: it is neither multiplied nor added, so that a real operand has only one.
    """

    def operand(self, value: Any) -> Tile | Number:
        """A number or tile; raises the author's mistake for complex ones, which most operations do not take."""
        if is_complex(value):
            raise Mistake(TypeMismatchError, f"expected real numbers, found {describe(value)}", _WHAT_WORKS, value)
        return super().operand(value)

    def parts(self, value: Any) -> tuple[Any, Any]:
        """The real and the imaginary part of a value, which is 0 of a real one."""
        return (value.real, value.imag) if is_complex(value) else (self.operand(value), 0.0)

    def tiles(self, value: ComplexTile) -> tuple[Tile, Tile]:
        """Both parts as tiles with all axes of the value."""
        real, imag = (self.tile(part, value.dtype.part) for part in value.parts)
        axes = join_axes([real.axes, imag.axes])
        return self.broadcast(real, axes), self.broadcast(imag, axes)

    def by_parts(self, function: Callable[[Tile], Tile], value: ComplexTile) -> ComplexTile:
        """A function of each part by itself; what it declares for the second is apart from the first's."""
        real, imag = self.tiles(value)
        first, path = function(real), self.path
        self.path = (*path, "imag")
        try:
            return ComplexTile(first, function(imag))
        finally:
            self.path = path

    def complex(self, real: Any, imag: Any) -> ComplexTile:
        """A complex value of two real ones."""
        return ComplexTile(*(self._float(part) for part in (real, imag)))

    def _float(self, part: Any) -> Tile | Number:
        operand = self.operand(part)
        if not isinstance(operand, Tile):
            return float(operand)
        dtype, weak = self.meet(operand)
        return operand if weak else self.convert(operand, dtype if dtype.is_float and dtype.bits >= 32 else float32)

    # Memory.

    def load(self, reference: SubscriptReference, mask: Any = None, inside: bool = False) -> Any:
        """Load the tile at a subscript; of complex numbers both parts."""
        places = _places(reference)
        if places is None:
            return super().load(reference, mask, inside)
        self._check_indices(reference)
        return ComplexTile(*(super(ComplexBuilder, self).load(place, mask, inside) for place in places))

    def store(self, reference: SubscriptReference, value: Any, atomic: str | None = None, mask: Any = None) -> None:
        """Store a value at a subscript; into complex numbers both parts."""
        places = _places(reference)
        if places is None:
            if is_complex(value):
                raise Mistake(
                    TypeMismatchError,
                    f"`{reference.memory.name}` holds {reference.memory.dtype.name}, found {describe(value)}",
                    "Store one of `z.real`, `z.imag` and `vk.abs(z)`.",
                    value,
                )
            super().store(reference, value, atomic, mask)
            return
        self._check_indices(reference)
        if atomic not in (None, "add"):
            raise _no_order(f"`vk.atomic_{atomic}`", reference.memory.dtype)
        parts = self.parts(value)
        for place, part in zip(places, parts, strict=True):
            if atomic is not None and _is_zero(part):
                continue
            try:
                super().store(place, part, atomic, mask)
            except Mistake as mistake:
                if mistake.culprit is part:
                    mistake.culprit = value
                raise

    def fetch(
        self, reference: SubscriptReference, value: Any, kind: str, expected: Any = None, mask: Any = None
    ) -> Tile:
        """Update places atomically; what was there before."""
        if _places(reference) is not None:
            raise Mistake(
                UnsupportedError,
                f"`{reference.memory.name}` holds complex numbers, whose parts are not updated at once",
                "`vk.atomic_add(…)` without a result adds to both.",
            )
        return super().fetch(reference, value, kind, expected, mask)

    def _check_indices(self, reference: SubscriptReference) -> None:
        if (count := len(reference.index)) != len(reference.memory.extents):
            raise Mistake(
                AxisError, f"{count} {'index is' if count == 1 else 'indices are'} given", declared(reference)
            )

    def scratch(self, axes: Any, dtype: Any) -> Any:
        """Declare a scratchpad; of complex numbers, one for each part."""
        name = self.target
        if not isinstance(dtype, DType) or not dtype.is_complex or name is None:
            return super().scratch(axes, dtype.part if isinstance(dtype, DType) else dtype)
        real, imag = (self.unnamed_scratch(axes, dtype.part, f"{name}_{part}") for part in ("real", "imag"))
        return ComplexScratch(name, dtype, real, imag)

    # Arithmetic.

    def full(self, value: Any, axes: tuple[Axis, ...], dtype: Any) -> Any:
        """A tile of one scalar along axes."""
        if not isinstance(dtype, DType) or not dtype.is_complex:
            return super().full(value, axes, dtype)
        return ComplexTile(*(super(ComplexBuilder, self).full(part, axes, dtype.part) for part in self.parts(value)))

    def cast(self, value: Any, dtype: Any) -> Any:
        """A value in another dtype. Complex numbers do not become real: which part is meant?"""
        if isinstance(dtype, DType) and dtype.is_complex:
            return ComplexTile(*(super(ComplexBuilder, self).cast(part, dtype.part) for part in self.parts(value)))
        if is_complex(value):
            raise Mistake(
                TypeMismatchError,
                f"{describe(value)} has two parts",
                "Convert `z.real`, `z.imag` or `vk.abs(z)`.",
                dtype,
            )
        return super().cast(value, dtype)

    def unary(self, name: str, value: Any) -> Any:
        """`-value`, `~value` or `+value`."""
        if not is_complex(value) or name == "~":
            return super().unary(name, value)
        return value if name == "+" else ComplexTile(self._minus(0, value.real), self._minus(0, value.imag))

    def conjugate(self, value: Any) -> Any:
        """The complex conjugate; a real value itself."""
        return ComplexTile(value.real, self._minus(0, value.imag)) if is_complex(value) else self.tile(value)

    def binary(self, name: str, left: Any, right: Any) -> Any:
        """`left name right`; complex if one of them is."""
        if not is_complex(left) and not is_complex(right):
            return super().binary(name, left, right)
        if name == "**":
            return self._complex_power(left, right)
        if name not in ("+", "-", "*", "/"):
            dtype = next(value.dtype.name if isinstance(value, ComplexTile) else "complex64"
                         for value in (left, right) if is_complex(value))  # fmt: skip
            raise Mistake(TypeMismatchError, f"`{name}` does not work on {dtype}", _WHAT_WORKS)
        (a, b), (c, d) = self.parts(left), self.parts(right)
        if name == "/":
            return self._quotient((a, b), (c, d))
        if name == "*":
            real = self._minus(self._times(a, c), self._times(b, d))
            return ComplexTile(real, self._plus(self._times(a, d), self._times(b, c)))
        joined = self._plus if name == "+" else self._minus
        return ComplexTile(joined(a, c), joined(b, d))

    def _times(self, left: Any, right: Any) -> Any:
        if _is_zero(left) or _is_zero(right):
            return 0.0
        if _is_one(left) or _is_one(right):
            return right if _is_one(left) else left
        return super().binary("*", left, right)

    def _plus(self, left: Any, right: Any) -> Any:
        if _is_zero(left) or _is_zero(right):
            return right if _is_zero(left) else left
        return super().binary("+", left, right)

    def _minus(self, left: Any, right: Any) -> Any:
        if _is_zero(right):
            return left
        return super().unary("-", right) if _is_zero(left) else super().binary("-", left, right)

    def _quotient(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> ComplexTile:
        """A quotient by Smith's method, which overflows only where the result does; by 0 it is the parts by 0."""
        (a, b), (c, d) = left, right
        by = super().binary
        if _is_zero(d):
            return ComplexTile(by("/", a, c), 0.0 if _is_zero(b) else by("/", b, c))
        c, d = (self._float_tile(part) for part in (c, d))
        is_first = self.compare(">=", self._size(c), self._size(d))
        large, small = self.where(is_first, c, d), self.where(is_first, d, c)
        ratio = self.where(self.compare("==", large, 0.0), 0.0, by("/", small, large))
        whole = by("+", large, by("*", small, ratio))
        one, other = self.where(is_first, a, b), self.where(is_first, b, a)
        across = by("-", other, by("*", one, ratio))
        across = self.where(is_first, across, super().unary("-", across))
        return ComplexTile(by("/", by("+", one, by("*", other, ratio)), whole), by("/", across, whole))

    def _float_tile(self, part: Any) -> Tile:
        tile = self.tile(part)
        return tile if tile.dtype.is_float else self.convert(tile, float32)

    def _size(self, part: Tile) -> Any:
        return self.mathematical("AbsF", part)

    def modulus(self, value: Any) -> Tile:
        """The absolute value of complex numbers: of the larger part times at most √2, so that no square overflows."""
        real, imag = (self._size(self._float_tile(part)) for part in self.parts(value))
        if _is_zero(value.imag):
            return real  # type: ignore[no-any-return]
        large, small = self.extreme("max", real, imag), self.extreme("min", real, imag)
        by = super().binary
        ratio = by("/", small, large)
        size = by("*", large, self.mathematical("Sqrt", by("+", 1.0, by("*", ratio, ratio))))
        is_end = by("|", self.compare("==", large, 0.0), self.compare("==", large, float("inf")))
        return self.where(is_end, large, size)  # type: ignore[no-any-return]

    def _complex_power(self, base: Any, exponent: Any) -> Any:
        if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_POWER or isinstance(exponent, bool):
            help = f"Whole numbers from 0 to {_MAX_POWER} are."
            raise Mistake(TypeMismatchError, f"{describe(exponent)} is no power of complex numbers", help, exponent)
        result: Any = ComplexTile(1.0, 0.0)
        for digit in f"{exponent:b}":
            result = self.binary("*", result, result)
            result = self.binary("*", result, base) if digit == "1" else result
        return result if exponent else self.full(1.0, base.axes, base.dtype)

    def compare(self, name: str, left: Any, right: Any) -> Any:
        """A comparison: bool for two numbers, else a tile of bool. Complex numbers are equal or not."""
        if not is_complex(left) and not is_complex(right):
            return super().compare(name, left, right)
        if name not in ("==", "!="):
            raise _no_order(f"`{name}`", next(v for v in (left, right) if is_complex(v)))
        pairs = zip(self.parts(left), self.parts(right), strict=True)
        real, imag = (super(ComplexBuilder, self).compare(name, one, other) for one, other in pairs)
        return super().binary("&" if name == "==" else "|", real, imag)

    def where(self, condition: Any, left: Any, right: Any) -> Any:
        """`left` where the condition holds, else `right`."""
        if not is_complex(left) and not is_complex(right):
            return super().where(condition, left, right)
        pairs = zip(self.parts(left), self.parts(right), strict=True)
        return ComplexTile(*(super(ComplexBuilder, self).where(condition, one, other) for one, other in pairs))

    def dot(self, left: Any, right: Any, acc: Any, axis: Any, precision: Any, scales: tuple[Any, Any]) -> Any:
        """Sum products along the whole axis that both operands share; of complex ones by the dots of their parts."""
        if not any(map(is_complex, (left, right, acc))):
            return super().dot(left, right, acc, axis, precision, scales)
        if scales != (None, None):
            raise Mistake(UnsupportedError, "complex operands have no scales", "Multiply them: `vk.dot(a * s, b)`.")
        by = super().dot
        (a, b), (c, d) = self._dot_parts(left), self._dot_parts(right)
        real, imag = (None, None) if acc is None else self.parts(acc)

        def dot(one: Any, other: Any, total: Any) -> Any:
            return total if one is None or other is None else by(one, other, total, axis, precision, scales)

        real, imag, across = dot(a, c, real), dot(b, c, dot(a, d, imag)), dot(b, d, None)
        real = real if across is None else super().binary("-", real, across)
        return ComplexTile(real, 0.0 if imag is None else imag)

    def _dot_parts(self, value: Any) -> tuple[Any, Any]:
        """The parts of an operand of a dot; None for the imaginary one of a real operand."""
        return self.tiles(value) if isinstance(value, ComplexTile) else (value, None)


def _places(reference: SubscriptReference) -> Sequence[SubscriptReference] | None:
    """Where the parts at a subscript lie; None of memory that is not complex."""
    memory: AddressableValue = reference.memory
    if isinstance(memory, ComplexTensor):
        return [SubscriptReference(memory.storage, (*reference.index, part)) for part in (0, 1)]
    if isinstance(memory, ComplexScratch):
        return [SubscriptReference(part, reference.index) for part in (memory.real, memory.imag)]
    return None


def _is_zero(part: Any) -> bool:
    """Whether a part is known to be 0 while building, and so is nothing."""
    return is_number(part) and part == 0


def _is_one(part: Any) -> bool:
    return is_number(part) and part == 1


def _no_order(what: str, value: Any) -> Mistake:
    found = value.name if isinstance(value, DType) else describe(value)
    return Mistake(
        TypeMismatchError,
        f"{what} does not work on {found}: complex numbers have no order",
        "Compare real numbers: `vk.abs(z)`, `z.real`, `z.imag`.",
    )
