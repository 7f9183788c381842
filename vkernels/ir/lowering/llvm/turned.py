"""Tiles whose registers lie across the rows of memory: rows are loaded or stored, and turned in registers.

A tile with lanes `j` and rows `i` of a tensor that is contiguous along `i` is read as vectors along `i`, one for each
`j`. These vectors are the columns of the registers. A block of size × size elements is turned in log2(size) steps, each
of which exchanges half of the elements of pairs of vectors (J. O. Eklundh, A Fast Computer Method for Matrix
Transposing, 1972). Where rows are shorter than registers, a register turns several blocks side by side. Rows of any
length are cut into blocks (`row_blocks`): the last may begin within the one before, or read under a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from ...analysis.turned_rows import MOST_NEAR, row_blocks
from .addresses import Address, AddressedAccess
from .emit import LlvmEmitter, Number, vector
from .masked import store_masked
from .tiles import Register


@dataclass(frozen=True)
class Block:
    """Registers that are turned together: `registers`, one a position of the row from the first on; the `place` of the
    first; the elements from one lane to the next; and the elements of a vector, a power of two, which may be more than
    the registers."""

    registers: tuple[Register, ...]
    place: Address
    step: Number
    size: int


def turned_blocks(access: AddressedAccess) -> list[Block] | None:
    """The blocks of an access whose rows can be turned, in the order of their first registers; None for others. Active
    registers are in one block at least, and others in none."""
    layout = access.layout
    axis = _row_axis(access)
    if axis is None:
        return None
    rows, step = _active_rows(access, axis), access.step(layout.lanes)
    blocks = []
    for register in layout.registers():
        begin, sizes = register.positions[axis], dict(row_blocks(rows, register.width))
        if not sizes:
            return None
        if begin not in sizes:
            continue
        size, place = sizes[begin], access.unmasked(register)
        if place.step != step:
            return None
        positions = ({**register.positions, axis: n} for n in range(begin, min(begin + size, rows)))
        blocks.append(Block(tuple(register._replace(positions=each) for each in positions), place, step, size))
    return blocks


def _row_axis(access: AddressedAccess) -> str | None:
    """The axis but the lanes' along which memory is contiguous, if lanes lie apart, and all elements are active or the
    first ones of each row, as many as are known."""
    layout = access.layout
    if not layout.has_lanes or access.mask is not None or access.is_guarded or access.is_scattered:
        return None
    step = access.emit.known(access.step(layout.lanes))
    if isinstance(step, int) and abs(step) <= MOST_NEAR:
        return None
    axis = next((axis for axis, _ in layout.row_axes if access.known_step(axis) == 1), None)
    if axis is None or any(each != axis or not isinstance(count, int) for each, count in access.bounds.items()):
        return None
    return axis


def _active_rows(access: AddressedAccess, axis: str) -> int:
    bound, size = access.bounds.get(axis), access.layout.size_of(axis)
    return min(bound, size) if isinstance(bound, int) else size


def load_turned(access: AddressedAccess, blocks: Sequence[Block], element: str, align: int) -> list[Callable[[], str]]:
    """What makes the registers of a tile, in its order; a block is loaded with the first register that is made of it.
    Inactive elements are 0."""
    emit = access.emit
    makers: list[Callable[[], str]] = [
        partial(emit.filled, _zero(element), element, width) for width in access.layout.widths()
    ]
    for block in blocks:
        made = cache(partial(_load_block, emit, block, element, align))
        for place, register in enumerate(block.registers):
            makers[access.layout.register(register.positions, register.piece)] = partial(_one_of, made, place)
    return makers


def _one_of(made: Callable[[], list[str]], place: int) -> str:
    return made()[place]


def _load_block(emit: LlvmEmitter, block: Block, element: str, align: int) -> list[str]:
    """The registers of a block. Where it has fewer than a vector elements, the others are not read."""
    size, width = block.size, block.registers[0].width
    rows = [
        _load_row(emit, pointer, len(block.registers), element, size, align)
        for pointer in _rows(emit, block, element, width)
    ]
    wide = [_joined(emit, rows[n::size], element, size) for n in range(size)]
    return turn(emit, wide, element, width)


def _load_row(emit: LlvmEmitter, pointer: str, count: int, element: str, size: int, align: int) -> str:
    type_ = vector(element, size)
    if count == size:
        return emit.operation(f"llvm.load {pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {type_}")
    rest = emit.constant(f"dense<{_zero(element)}>", type_)
    types = f"(!llvm.ptr, {vector('i1', size)}, {type_}) -> {type_}"
    mask = _first_lanes(emit, count, size)
    return emit.operation(f"llvm.intr.masked.load {pointer}, {mask}, {rest} {{alignment = {align} : i32}} : {types}")


def _zero(element: str) -> str:
    return "0.0" if element.startswith("f") else "0"


def _first_lanes(emit: LlvmEmitter, count: int, size: int) -> str:
    lanes = ", ".join("true" if lane < count else "false" for lane in range(size))
    return emit.constant(f"dense<[{lanes}]>", vector("i1", size))


def store_turned(
    access: AddressedAccess, blocks: Sequence[Block], names: Sequence[str], element: str, align: int
) -> None:
    """Store the registers of a tile, given in its order."""
    emit = access.emit
    for block in blocks:
        size, width, count = block.size, block.registers[0].width, len(block.registers)
        values = [names[access.layout.register(each.positions, each.piece)] for each in block.registers]
        turned = turn(emit, [*values, *values[:1] * (size - count)], element, width)
        for lane, pointer in enumerate(_rows(emit, block, element, width)):
            begin = lane // size * size
            row = turned[lane % size]
            if size < width:
                row = emit.shuffle(row, row, range(begin, begin + size), element, width)
            if count < size:
                store_masked(emit, pointer, row, _first_lanes(emit, count, size), element, size, align)
                continue
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
