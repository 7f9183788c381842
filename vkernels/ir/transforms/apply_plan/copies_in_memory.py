"""Private copies in memory: buffers, filled with the neutral element, and launches that combine them into the tensor.

A buffer has the shape [copies, the tensor's dimensions], the first of them padded.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, BFloat16Type, Float16Type, f32, i64
from xdsl.ir import Attribute, Block, SSAValue

from ...analysis.private_copies import padding_of
from ...dialect import (
    BufferOp,
    BufferType,
    LoadOp,
    SizeOp,
    StoreOp,
    TensorArgumentType,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)
from ...dialect.access_parts import Index
from ...dialect.combining import combining, neutral
from .frames import LoopFrame, filled
from .launches import add_launch
from .mapping_state import MappingState

_VECTOR = 128
"""Elements that are filled, and combined, at once."""
_SCALARS = 8
"""The same where no axis lies along vector registers."""
_REDUCTIONS = {"add": "sum", "max": "max", "min": "min", "maxui": "maxui", "minui": "minui"}


def make_copies(state: MappingState, tensor: SSAValue) -> SSAValue:
    """The buffer of a tensor's private copies."""
    top = state.top
    sizes = [top.number(state.plan.private_copies), *_lengths_of_copy(state, tensor)]
    known = [top.known(size) for size in sizes]
    shape = BufferType([DYNAMIC_INDEX if n is None else n for n in known], _element(tensor))
    unknown = [size for size, n in zip(sizes, known, strict=True) if n is None]
    made = top.add(BufferOp(f"copies_{tensor.name_hint or 'tensor'}", unknown, shape))
    made.name_hint = f"copies_{tensor.name_hint or 'tensor'}"
    return made


def fill_copy(state: MappingState, frame: LoopFrame, tensor: SSAValue, kind: str) -> None:
    """Fill the program's own copy with the neutral element."""
    buffer, own = state.copies[tensor]
    axis, size = _tile(state)
    start = neutral(_REDUCTIONS[kind], _element(tensor))
    if kind == "add" and isinstance(_element(tensor), AnyFloat):
        start = -0.0  # 0 would turn a -0 in the tensor into 0
    value = filled(frame, tile_type(_element(tensor), [axis], [size]), start)
    lengths, frames = _lengths_of_copy(state, tensor), [frame]
    for _ in lengths:
        frames.append(LoopFrame(Block(arg_types=[i64]), frames[-1]))
    *rows, position = [inner.block.args[0] for inner in frames[1:]]
    index: list[Index] = [((), own), *(((), row) for row in rows), ([(axis, 1)], position)]
    left = frames[-1].combined(arith.SubiOp, lengths[-1], position)
    frames[-1].block.add_op(StoreOp(value, buffer, index, bounds={axis: left}))
    steps = [1] * len(rows) + [size]
    for around, inner, length, step in reversed([*zip(frames, frames[1:], lengths, steps, strict=False)]):
        inner.block.add_op(scf.YieldOp.create())
        around.loop((frame.number(0), length, frame.number(step)), [], inner.block, state.kernel.location)


def emit_combining(state: MappingState, tensor: SSAValue, buffer: SSAValue, kind: str) -> None:
    """A launch whose programs each combine all copies of a few elements into the tensor."""
    top, element = state.top, _element(tensor)
    axis, size = _tile(state)
    *outer, last = lengths_of(state, tensor)
    grid = [*outer, top.combined(arith.CeilDivSIOp, last, top.number(size))]
    block = Block(arg_types=[i64] * len(grid))
    frame = LoopFrame(block, top)
    *rows, number = block.args
    base = frame.combined(arith.MuliOp, number, frame.number(size))
    bounds = {axis: frame.combined(arith.SubiOp, last, base)}
    index: list[Index] = [*(((), row) for row in rows), ([(axis, 1)], base)]
    stored = tile_type(element, [axis], [size])
    target = top.values[tensor]
    total = _widened(frame, frame.add(LoadOp(target, index, stored, bounds=bounds)))
    inner = LoopFrame(Block(arg_types=[i64, total.type]), frame)
    copy, so_far = inner.block.args
    part = _widened(inner, inner.add(LoadOp(buffer, [((), copy), *index], stored, bounds=bounds)))
    combined = inner.make(combining(_REDUCTIONS[kind], element_of(total)), so_far, part)
    inner.block.add_op(scf.YieldOp.create(operands=[combined]))
    copies = frame.number(state.plan.private_copies)
    (total,) = frame.loop((frame.number(0), copies, frame.number(1)), [total], inner.block, state.kernel.location)
    if total.type != stored:
        total = frame.make(arith.TruncFOp, total, type_=stored)
    frame.block.add_op(StoreOp(total, target, index, bounds=bounds))
    add_launch(state, f"combine {tensor.name_hint or 'copies'}", grid, block)


def _widened(frame: LoopFrame, value: SSAValue) -> SSAValue:
    """A value as it is computed with: f16 and bf16 are formats of memory."""
    if not isinstance(element_of(value), Float16Type | BFloat16Type):
        return value
    return frame.make(arith.ExtFOp, value, type_=tile_type(f32, axes_of(value), sizes_of(value).values()))


def _type(tensor: SSAValue) -> TensorArgumentType:
    assert isinstance(tensor.type, TensorArgumentType)
    return tensor.type


def _element(tensor: SSAValue) -> Attribute:
    return _type(tensor).element


def lengths_of(state: MappingState, tensor: SSAValue) -> list[SSAValue]:
    """The lengths of a tensor's dimensions, at the top level."""
    return [_length(state, dimension) for dimension in _type(tensor).shape]


def _length(state: MappingState, dimension: int | str) -> SSAValue:
    top = state.top
    known = dimension if isinstance(dimension, int) else state.facts.sizes.get(dimension)
    if known is not None:
        return top.number(known)
    for op in top.block.ops:
        if isinstance(op, SizeOp) and op.size.data == dimension:
            return op.result
    made = top.add(SizeOp(str(dimension)))
    made.name_hint = str(dimension)
    return made


def _lengths_of_copy(state: MappingState, tensor: SSAValue) -> list[SSAValue]:
    """The lengths of one copy's dimensions: the first is longer than the tensor's."""
    first, *rest = lengths_of(state, tensor)
    return [state.top.combined(arith.AddiOp, first, state.top.number(padding_of(_type(tensor)))), *rest]


def _tile(state: MappingState) -> tuple[str, int]:
    """The axis of tiles that are filled and combined, and their elements."""
    return state.plan.lanes or next(iter(state.axes)), _SCALARS if state.plan.lanes is None else _VECTOR
