"""`vk.dot`: products summed along an axis."""

from __future__ import annotations

from ...dialect import DotOp
from .combine import Combiner
from .emit import vector
from .state import LlvmState
from .tiles import RegisterTile


def lower_dot(state: LlvmState, operation: DotOp) -> None:
    """`vk.dot`: one multiply-add for each register and contracted position; the sums stay in registers."""
    left, right, total = (state.tile(operand) for operand in operation.operands)
    axis = operation.axis.data
    if axis == state.lanes.axis:
        names = _dot_lanes(state, left, right, total)
    else:
        names = list(total.names)
        for position in range(left.layout.size_of(axis)):
            for number, register in enumerate(total.layout.registers()):
                at = register._replace(positions={**register.positions, axis: position})
                a, b = left.spread(state.emit, at), right.spread(state.emit, at)
                names[number] = _multiply_add(state, a, b, names[number], total.element, register.width)
    state.define(operation.result, names)


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
