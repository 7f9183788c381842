"""Reductions, scans and dots: combine registers with each other first, then the lanes of those that are left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ...analysis.dot_order import MOST_ADDRESSES
from ...dialect import DotOp, ReductionOp, ScanOp
from ...dialect.combining import kind_of
from ..common import unsupported
from .dots_beside import dots_beside
from .elementwise import extremum
from .emit import LlvmEmitter, vector
from .late_registers import LateNames
from .state import LlvmState
from .tiles import RegisterLayout, RegisterTile

VECTORS_TOGETHER = 8
"""Vectors of an operand that a dot multiplies with one row of the other before it goes on to the next row, where each
row has an address of its own. One position at a time, all addresses would be alive at once: LLVM then loads elements
early, and spills them."""

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


def lower_dot(state: LlvmState, operation: DotOp) -> None:
    """`vk.dot`: one multiply-add for each register and contracted position; the sums stay in registers.

    Dots that follow it and share operands with it are lowered with it, row by row: so what they share is loaded once.
    """
    if operation.result in state.values:
        return
    if operation.axis.data == state.lanes.axis:
        state.define(operation.result, _dot_lanes(state, *(state.tile(operand) for operand in operation.operands)))
        return
    dots, axis = dots_beside(operation), operation.axis.data
    tiles = [(state.tile(dot.left), state.tile(dot.right), state.tile(dot.sum)) for dot in dots]
    sums = [list(total.names) for _, _, total in tiles]
    (left, _, first), *_ = tiles
    registers, pieces = list(first.layout.registers()), range(len(first.layout.pieces))
    one_by_one = any(_has_few_addresses(operand, axis) for sides in tiles for operand in sides[:2])
    together = 1 if one_by_one else max(1, VECTORS_TOGETHER // len(pieces))
    for row, position in _in_turn(first.layout, left.layout.size_of(axis), together):
        for (left, right, total), names in zip(tiles, sums, strict=True):
            for register in registers[row : row + len(pieces)]:
                at = register._replace(positions={**register.positions, axis: position})
                a, b = left.spread(state.emit, at), right.spread(state.emit, at)
                number = row + register.piece
                names[number] = _multiply_add(state, a, b, names[number], total.element, register.width)
    for dot, names in zip(dots, sums, strict=True):
        state.define(dot.result, names)


def _has_few_addresses(operand: RegisterTile, axis: str) -> bool:
    """Whether an operand without lanes is loaded as it is needed, and its elements at each position of a contracted
    axis lie side by side, as in a panel, or have so few addresses that general registers hold them."""
    layout, names = operand.layout, operand.names
    if layout.has_lanes or not isinstance(names, LateNames):
        return False
    rows = {row: size for row, size in layout.row_axes if row != axis and size > 1}
    return prod(rows.values()) <= MOST_ADDRESSES or [names.steps[row] for row in rows] == [1]


def _in_turn(layout: RegisterLayout, size: int, together: int) -> Iterator[tuple[int, int]]:
    """The first register of each row of a dot's sums with each of `size` contracted positions, in the order of the
    multiply-adds: so many positions `together`, row after row."""
    pieces = len(layout.pieces)
    for first in range(0, size, together):
        for row in range(0, len(layout.widths()), pieces):
            yield from ((row, position) for position in range(first, min(first + together, size)))


def _dot_lanes(state: LlvmState, left: RegisterTile, right: RegisterTile, total: RegisterTile) -> list[str]:
    """The contracted axis lies along the lanes: products lane by lane, then summed across."""
    combine = Combiner(state.emit, "sum", total.element)
    names = []
    for number, positions in enumerate(total.layout.rows()):
        sums: dict[int, str] = {}
        for piece, (_, width) in enumerate(left.layout.pieces):
            a, b = left.at(positions, piece), right.at(positions, piece)
            if width in sums:
                sums[width] = _multiply_add(state, a, b, sums[width], total.element, width)
            else:
                sums[width] = _product(state, a, b, total.element, width)
        row = combine.pieces([(name, width) for width, name in sums.items()])
        names.append(combine.two(total.names[number], row, 1))
    return names


def _product(state: LlvmState, a: str, b: str, element: str, width: int) -> str:
    """a * b, which may become part of a fused multiply-add."""
    name, flags = ("mulf", " fastmath<contract>") if element.startswith("f") else ("muli", "")
    return state.emit.pure(f"arith.{name} {a}, {b}{flags} : {vector(element, width)}")


def _multiply_add(state: LlvmState, a: str, b: str, c: str, element: str, width: int) -> str:
    """a * b + c, fused for floats where the processor can."""
    product = _product(state, a, b, element, width)
    name, flags = ("addf", " fastmath<contract>") if element.startswith("f") else ("addi", "")
    return state.emit.pure(f"arith.{name} {product}, {c}{flags} : {vector(element, width)}")


def _parts(state: LlvmState, operation: ReductionOp | ScanOp) -> tuple[RegisterTile, str, Combiner]:
    """The tile, the axis and the combination. Raises `UnsupportedError` for i1, which has no sum."""
    tile = state.tile(operation.tile)
    if tile.element == "i1":
        raise unsupported(operation, "i1 is not reduced; extend it to an integer first")
    return tile, operation.axis.data, Combiner(state.emit, kind_of(operation), tile.element)


def lower_reduction(state: LlvmState, operation: ReductionOp) -> None:
    tile, axis, combine = _parts(state, operation)
    result = state.layout(operation.result.type)
    if 0 in tile.layout.sizes:
        names = [combine.neutral(width) for width in result.widths()]
    elif axis == tile.layout.lanes:
        names = [_along_lanes(combine, tile, positions) for positions in result.rows()]
    else:
        size = tile.layout.size_of(axis)
        names = [
            combine.many([tile.at({**r.positions, axis: p}, r.piece) for p in range(size)], r.width)
            for r in result.registers()
        ]
    state.define(operation.result, names)


def _along_lanes(combine: Combiner, tile: RegisterTile, positions: dict[str, int]) -> str:
    pieces = enumerate(tile.layout.pieces)
    return combine.pieces([(tile.at(positions, piece), width) for piece, (_, width) in pieces])


def lower_scan(state: LlvmState, operation: ScanOp) -> None:
    tile, axis, combine = _parts(state, operation)
    names = _scan_lanes(combine, tile) if axis == tile.layout.lanes else _scan_rows(combine, tile, axis)
    state.define(operation.result, names)


def _scan_rows(combine: Combiner, tile: RegisterTile, axis: str) -> list[str]:
    """Each row combined with the one before it; rows come in order."""
    layout, names = tile.layout, list(tile.names)
    for here, register in enumerate(layout.registers()):
        if position := register.positions[axis]:
            before = layout.register({**register.positions, axis: position - 1}, register.piece)
            names[here] = combine.two(names[before], names[here], register.width)
    return names


def _scan_lanes(combine: Combiner, tile: RegisterTile) -> list[str]:
    """Within a register in log2 steps; the last lane goes on to the next register."""
    carried, names = "", []
    for name, register in zip(tile.names, tile.layout.registers(), strict=True):
        value = _scan_register(combine, name, register.width)
        if register.piece:
            before = combine.emit.splat(carried, tile.element, register.width)
            value = combine.two(before, value, register.width)
        carried = combine.emit.extract(value, register.width - 1, tile.element, register.width)
        names.append(value)
    return names


def _scan_register(combine: Combiner, value: str, width: int) -> str:
    distance = 1
    while distance < width:
        neutral = combine.neutral(width)
        lanes = [lane - distance if lane >= distance else width + lane for lane in range(width)]
        shifted = combine.emit.shuffle(value, neutral, lanes, combine.element, width)
        value = combine.two(shifted, value, width)
        distance *= 2
    return value
