"""Tiles whose registers lie across the rows of memory: rows are loaded or stored, and turned in registers.

A tile with lanes `j` and rows `i` of a tensor that is contiguous along `i` is read as vectors along `i`, one for each
`j`. These vectors are the columns of the registers. A block of size × size elements is turned in log2(size) steps, each
of which exchanges half of the elements of pairs of vectors (J. O. Eklundh, A Fast Computer Method for Matrix
Transposing, 1972). Where rows are shorter than registers, a register turns several blocks side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...analysis.turned_rows import LEAST_TURNED, MOST_NEAR
from .addresses import Address, AddressedAccess
from .emit import LlvmEmitter, Number, vector
from .tiles import Register


@dataclass(frozen=True)
class Block:
    """Registers that are turned together: `registers`, one a position of the row from the first on; the `place` of the
    first; and the elements from one lane to the next."""

    registers: tuple[Register, ...]
    place: Address
    step: Number


def turned_blocks(access: AddressedAccess) -> list[Block] | None:
    """The blocks of an access whose rows can be turned, in the order of their first registers; None for others."""
    layout = access.layout
    axis = _row_axis(access)
    if axis is None:
        return None
    step = access.step(layout.lanes)
    blocks = []
    for register in layout.registers():
        position, rest = register.positions[axis], layout.size_of(axis)
        size = _block_size(rest, register.width)
        if size < LEAST_TURNED:
            return None
        if position % size:
            continue
        place = access.place(register)
        if place.mask is not None or place.step != step:
            return None
        positions = ({**register.positions, axis: position + n} for n in range(size))
        blocks.append(Block(tuple(register._replace(positions=each) for each in positions), place, step))
    return blocks


def _row_axis(access: AddressedAccess) -> str | None:
    """The axis but the lanes' along which memory is contiguous, if all elements are active and lanes lie apart."""
    layout = access.layout
    if not layout.has_lanes or access.mask is not None or access.bounds or access.is_guarded or access.is_scattered:
        return None
    step = access.emit.known(access.step(layout.lanes))
    if isinstance(step, int) and abs(step) <= MOST_NEAR:
        return None
    return next((axis for axis, _ in layout.row_axes if access.known_step(axis) == 1), None)


def _block_size(rows: int, lanes: int) -> int:
    """The largest power of two that divides the rows, up to the lanes."""
    return min(rows & -rows, lanes)


def load_turned(access: AddressedAccess, blocks: Sequence[Block], element: str, align: int) -> list[str]:
    """The registers of a tile, in its order."""
    emit, names = access.emit, {}
    for block in blocks:
        size, width = len(block.registers), block.registers[0].width
        type_ = vector(element, size)
        rows = [
            emit.operation(f"llvm.load {pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {type_}")
            for pointer in _rows(emit, block, element, width)
        ]
        wide = [_joined(emit, rows[n::size], element, size) for n in range(size)]
        for register, name in zip(block.registers, turn(emit, wide, element, width), strict=True):
            names[access.layout.register(register.positions, register.piece)] = name
    return [names[number] for number in range(len(names))]


def store_turned(
    access: AddressedAccess, blocks: Sequence[Block], names: Sequence[str], element: str, align: int
) -> None:
    """Store the registers of a tile, given in its order."""
    emit = access.emit
    for block in blocks:
        size, width = len(block.registers), block.registers[0].width
        values = [names[access.layout.register(each.positions, each.piece)] for each in block.registers]
        turned = turn(emit, values, element, width)
        for lane, pointer in enumerate(_rows(emit, block, element, width)):
            begin = lane // size * size
            row = turned[lane % size]
            if size < width:
                row = emit.shuffle(row, row, range(begin, begin + size), element, width)
            emit.line(f"llvm.store {row}, {pointer} {{alignment = {align} : i64}} : {vector(element, size)}, !llvm.ptr")


def _rows(emit: LlvmEmitter, block: Block, element: str, width: int) -> Iterator[str]:
    """A pointer to the row of each lane."""
    for lane in range(width):
        yield emit.offset(block.place.pointer, emit.multiply(lane, block.step), element)


def _joined(emit: LlvmEmitter, rows: Sequence[str], element: str, size: int) -> str:
    """Vectors of `size`, as many as a power of two, one after another in one."""
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [emit.shuffle(a, b, range(2 * size), element, size) for a, b in pairs]
        size *= 2
    return rows[0]


def turn(emit: LlvmEmitter, values: Sequence[str], element: str, width: int) -> list[str]:
    """Turn each block of as many lanes as there are vectors."""
    found, distance = list(values), 1
    while distance < len(found):
        for first in range(len(found)):
            if first & distance:
                continue
            a, b = found[first], found[first + distance]
            low = [lane if not lane & distance else width + lane - distance for lane in range(width)]
            high = [lane + distance if not lane & distance else width + lane for lane in range(width)]
            found[first] = emit.shuffle(a, b, low, element, width)
            found[first + distance] = emit.shuffle(a, b, high, element, width)
        distance *= 2
    return found
