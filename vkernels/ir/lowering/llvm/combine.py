"""Sum, product, maximum and minimum of two registers, and of the lanes of one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ..common import unsupported
from .elementwise import extremum
from .emit import LlvmEmitter, vector

_FLOAT = {"sum": "addf", "product": "mulf"}
_INTEGER = {"sum": "addi", "product": "muli", "max": "maxsi", "min": "minsi", "maxui": "maxui", "minui": "minui"}
_ACROSS = {
    "addf": "fadd", "mulf": "fmul", "addi": "add", "muli": "mul",
    "maxsi": "smax", "minsi": "smin", "maxui": "umax", "minui": "umin",
}  # fmt: skip


@dataclass(frozen=True)
class Combiner:
    """A combination (`sum`, `product`, `max`, `min`, `maxui` or `minui`) of elements of one type in registers."""

    emit: LlvmEmitter
    kind: str
    element: str

    @property
    def _is_float(self) -> bool:
        return self.element.startswith("f")

    @property
    def _name(self) -> str | None:
        """The arith operation; None for the extrema of floats, which propagate NaN."""
        return (_FLOAT if self._is_float else _INTEGER).get(self.kind)

    def two(self, a: str, b: str, width: int) -> str:
        """Two registers combined lane by lane."""
        if self._name is None:
            return extremum(self.emit, self.kind, a, b, self.element, width)
        return self.emit.pure(f"arith.{self._name} {a}, {b} : {vector(self.element, width)}")

    def neutral(self, width: int) -> str:
        """The neutral element in every lane."""
        return self.emit.filled(self._neutral(), self.element, width)

    def _neutral(self) -> str:
        if self.kind in ("sum", "product"):
            number = int(self.kind == "product")
            return f"{number}.0" if self._is_float else str(number)
        if self._is_float:
            infinity = 0x7F800000 if self.element == "f32" else 0x7FF0000000000000
            sign = 0x80000000 if self.element == "f32" else 1 << 63
            return hex(infinity | sign if self.kind == "max" else infinity)
        if self.kind in ("maxui", "minui"):
            return "0" if self.kind == "maxui" else "-1"
        bound = 1 << int(self.element[1:]) - 1
        return str(-bound if self.kind == "max" else bound - 1)

    def many(self, values: list[str], width: int) -> str:
        """Registers combined pairwise, so that the chain of dependent operations is short."""
        while len(values) > 1:
            pairs = [self.two(a, b, width) for a, b in zip(values[::2], values[1::2], strict=False)]
            values = pairs + values[len(pairs) * 2 :]
        return values[0]

    def pieces(self, values: list[tuple[str, int]]) -> str:
        """The lanes of all pieces, given with their widths (powers of two), as one element."""
        widths = sorted({width for _, width in values}, reverse=True)
        carried: list[str] = []
        for width, narrower in zip(widths, [*widths[1:], 0], strict=True):
            value = self.many([*carried, *(name for name, w in values if w == width)], width)
            carried = [self._across(value, width) if narrower <= 1 else self._folded(value, width, narrower)]
        return carried[0]

    def _folded(self, value: str, width: int, narrower: int) -> str:
        """The halves of a register combined until it is `narrower` wide, 2 at least."""
        while width > narrower:
            half = width // 2
            low = self.emit.shuffle(value, value, range(half), self.element, width)
            high = self.emit.shuffle(value, value, range(half, width), self.element, width)
            value, width = self.two(low, high, half), half
        return value

    def _across(self, value: str, width: int) -> str:
        """The lanes of one register as one element."""
        if width == 1:
            return value
        if self._name is None:
            pair = self._folded(value, width, 2)
            low, high = (self.emit.extract(pair, lane, self.element, 2) for lane in (0, 1))
            return self.two(low, high, 1)
        type_ = vector(self.element, width)
        name = f'"llvm.intr.vector.reduce.{_ACROSS[self._name]}"'
        if not self._is_float:
            return self.emit.pure(f"{name}({value}) : ({type_}) -> {self.element}")
        first = self.emit.constant(self._neutral(), self.element)
        flags = "<{fastmathFlags = #llvm.fastmath<reassoc>}>"
        return self.emit.pure(f"{name}({first}, {value}) {flags} : ({self.element}, {type_}) -> {self.element}")


def combiner(emit: LlvmEmitter, kind: str, element: str, operation: Operation) -> Combiner:
    """The combiner of a reduction or scan. Raises `UnsupportedError` for i1, which has no sum."""
    if element == "i1":
        raise unsupported(operation, "i1 is not reduced; extend it to an integer first")
    return Combiner(emit, kind, element)
