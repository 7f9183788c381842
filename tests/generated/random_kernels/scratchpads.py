"""Scratchpad: written, read at other positions, rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region

from vkernels.ir.dialect import (
    BoundaryOp,
    GatherOp,
    LoadOp,
    RangeOp,
    ScratchOp,
    ScratchType,
    StoreOp,
    YieldOp,
    tile_type,
)

from .control import combined, inside
from .memory import constant_index, index_values, load
from .steps import pick, tamed, wholes
from .values import ELEMENTS, MOST_ELEMENTS, Kernel, Scratch, Value


def scratchpad(kernel: Kernel, depth: int) -> Value | None:
    """Keep a value in scratchpad and read it at other positions."""
    value = pick(kernel)
    if not value.axes or value.element == "i1":
        return None
    scratch = _written(kernel, value)
    if kernel.random.random() < 0.3:
        kernel.add(BoundaryOp())
    return read_again(kernel, scratch)


def read_again(kernel: Kernel, scratch: Scratch | None = None) -> Value | None:
    """Read one of the scratchpads, somewhere."""
    if scratch is None:
        if not kernel.scratches:
            return None
        scratch = kernel.random.choice(kernel.scratches)
    axes = scratch.value.axes
    return _read(
        kernel, scratch, kernel.random.choice([axis.name for axis in wholes(kernel) if axis.name in axes] or [""])
    )


def boundary(kernel: Kernel, depth: int) -> None:
    """What stands after it begins when all before it is done, at times in all programs."""
    kernel.add(BoundaryOp(grid=depth == 0 and kernel.random.random() < 0.4))


def update(kernel: Kernel, depth: int) -> None:
    """Write a scratchpad again, with nothing that is less known than what it had."""
    if not kernel.scratches:
        return
    scratch = kernel.random.choice(kernel.scratches)
    had = scratch.value
    fits = [v for v in kernel.live if v.element == had.element and set(v.axes) <= set(had.axes)]
    fits = [v for v in fits if v.error <= had.error and (had.special or not v.special)]
    if not fits:
        return
    value = kernel.random.choice(fits[-6:])
    if value.is_float:
        value = kernel.clamped(value, max(1.0, had.bound)) if value.bound > had.bound else value
        if value.bound > had.bound or value.error > had.error:
            return
    value = kernel.broadcast(value, had.axes)
    kernel.add(StoreOp(value.ssa, scratch.memory, _plain(had)))


def layers(kernel: Kernel, depth: int) -> Value | None:
    """Scratchpad that a loop rewrites from what it gathers there: the layers of a network."""
    choose = kernel.random
    whole = [axis for axis in wholes(kernel) if axis.extent > 0]
    if not whole:
        return None
    axis = choose.choice(whole).name
    value = tamed(kernel, pick(kernel, axis=axis), 8)
    if value.element == "i1" or not value.is_exact:
        return None
    scratch = _written(kernel, value, remembered=False)
    memory, plain = scratch.memory, _plain(value)
    steps = choose.choice([0, 1, 2, 3])
    high = kernel.parameter(i64, steps, "steps") if choose.random() < 0.5 else constant_index(kernel, steps)
    low = constant_index(kernel, 0)
    body = Block(arg_types=[i64])
    body.args[0].name_hint = f"k{kernel.count}"
    with inside(kernel, body):
        kernel.live.append(load(kernel, element=value.element, position=(body.args[0], steps)))
        read = _read(kernel, scratch, axis, moves=False)
        carried = replace(read, special=True)
        made = kernel.clamped(combined(kernel, carried, 1), 8) if read.is_float else combined(kernel, read, 1)
        if choose.random() < 0.7:
            kernel.add(BoundaryOp())
        kernel.add(StoreOp(made.ssa, memory, plain))
        kernel.add(YieldOp())
    kernel.add(RangeOp(f"k{kernel.count}", low, high, [], Region(body)))
    last = kernel.add(LoadOp(memory, plain, tile_type(ELEMENTS[value.element], value.axes)))
    return Value(last, value.axes, value.element, 8, max(1, steps) * made.error, value.is_float)


def _written(kernel: Kernel, value: Value, remembered: bool = True) -> Scratch:
    """New scratchpad with a value in it; others may use it later if it is `remembered`."""
    memory = kernel.add(ScratchOp(f"scratch{kernel.count}", ScratchType(value.axes, ELEMENTS[value.element])))
    memory.name_hint = memory.owner.label.data
    kernel.add(StoreOp(value.ssa, memory, _plain(value)))
    scratch = Scratch(memory, value)
    if remembered:
        kernel.scratches.append(scratch)
    return scratch


def _plain(value: Value) -> list[Any]:
    return [([(a, 1)], None) for a in value.axes]


def _read(kernel: Kernel, scratch: Scratch, moved: str, moves: bool = True) -> Value:
    """Read scratchpad as it is, or along one whole axis at other positions: shifted, reversed, gathered.

    `moves`: also gathered along another axis, which the result has in place of the moved one.
    """
    value, indices = scratch.value, _plain(scratch.value)
    axes = list(value.axes)
    number = axes.index(moved) if moved else 0
    guarded: list[int] = []
    match kernel.random.choice(["plain", "shift", "reverse", "gather", "gather"]) if moved else "plain":
        case "shift":
            indices[number] = ([(moved, 1)], constant_index(kernel, kernel.random.choice([-2, -1, 1, 3])))
            guarded = [number]
        case "reverse":
            indices[number] = ([(moved, -1)], constant_index(kernel, kernel.axes[moved].extent - 1))
        case "gather" if kernel.axes[moved].extent > 0:
            by = kernel.random.choice([moved, *(a for a in kernel.axes if moves and a not in axes)])
            axes[number] = (
                by if kernel.extent([*axes, by]) <= MOST_ELEMENTS * max(1, kernel.axes[moved].extent) else moved
            )
            index = index_values(kernel, (axes[number],), kernel.axes[moved].extent)
            indices[number] = ([], index.ssa)
            type_ = tile_type(ELEMENTS[value.element], axes)
            made = kernel.add(GatherOp(scratch.memory, indices, type_))
            return replace(value, ssa=made, axes=tuple(axes))
    made = kernel.add(LoadOp(scratch.memory, indices, tile_type(ELEMENTS[value.element], axes), guarded=guarded))
    return replace(value, ssa=made)
