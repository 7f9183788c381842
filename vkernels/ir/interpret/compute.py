"""Operations on tiles beside arith and math: broadcasts, reductions, scans, dots; printing and asserting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ..dialect import (
    REDUCTIONS,
    AssertOp,
    BelowOp,
    BroadcastOp,
    DotOp,
    InterleaveOp,
    LastOp,
    PositionOp,
    PrintOp,
    ReductionOp,
    ReloadOp,
    ScaleOp,
    ScanByOp,
    ScanOp,
    SpillOp,
    arith,
    axes_of,
    element_of,
)
from ..dialect.combining import kind_of
from .elementwise import elementwise
from .numbers import Array, dtype_of, is_float, round_significand, rounded, signed, unsigned, wrapped
from .scaled import SCALED_HANDLERS
from .state import Handler, TileInterpreter, align
from .words import WORD_HANDLERS

_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "product": np.multiply,
    **dict.fromkeys(("max", "maxui"), np.maximum),
    **dict.fromkeys(("min", "minui"), np.minimum),
}


def _scaled(value: Array, power: Array) -> Array:
    """`value` times two to the `power`. Powers beyond 5000 are cut: the result is 0 or infinity all the same."""
    steps = np.clip(np.nan_to_num(power), -5000, 5000).astype(np.int32)
    return np.asarray(np.where(np.isnan(power), power, np.ldexp(value, steps)))


def _broadcast(run: TileInterpreter, op: BroadcastOp, source: Array) -> Array:
    return np.broadcast_to(align(source, axes_of(op.source), axes_of(op.result)), run.state.shape_of(op.result))


def _positions(run: TileInterpreter, op: PositionOp | BelowOp) -> Array:
    return np.arange(*run.state.shape_of(op.result), dtype=np.int64)


def _scan(_: TileInterpreter, op: ScanOp, tile: Array) -> Array:
    tile, combine = _seen(op.kind.data, tile), _COMBINE[op.kind.data]
    result = combine.accumulate(tile, axis=axes_of(op.tile).index(op.axis.data), dtype=tile.dtype)
    return _of_type(result, op.result)


def _scan_by(run: TileInterpreter, op: ScanByOp, *given: Array) -> tuple[Array, ...]:
    """Each element combined with all before it, one position after another."""
    axis = axes_of(op.tiles[0]).index(op.axis.data)
    tiles = [np.moveaxis(np.asarray(tile), axis, 0) for tile in given[: len(op.tiles)]]
    found: list[list[Array]] = []
    for here in zip(*tiles, strict=True):
        before = found[-1] if found else None
        values = here if before is None else run.run_ssacfg_region(op.body, (*before, *here), "combine")
        found.append([np.asarray(value) for value in values])
    if not found:
        return tuple(given[: len(op.tiles)])
    stacked = (np.stack(each).astype(tile.dtype) for each, tile in zip(zip(*found, strict=True), tiles, strict=True))
    return tuple(np.moveaxis(each, 0, axis) for each in stacked)


def _last(_: TileInterpreter, op: LastOp, tile: Array) -> Array:
    return np.asarray(np.take(tile, -1, axes_of(op.tile).index(op.axis.data)))


def _dot(_: TileInterpreter, op: DotOp, left: Array, right: Array, total: Array) -> Array:
    left, right, total = map(signed, (left, right, total))
    if op.precision.data == "tf32" and left.dtype == np.float32:
        left, right = round_significand(left, 10), round_significand(right, 10)
    left_axes, right_axes = axes_of(op.left), axes_of(op.right)
    numbers = {axis: n for n, axis in enumerate(dict.fromkeys((*left_axes, *right_axes)))}
    subscripts = [[numbers[axis] for axis in axes] for axes in (left_axes, right_axes, axes_of(op.result))]
    products = np.asarray(np.einsum(left, subscripts[0], right, subscripts[1], subscripts[2]))
    return _of_type(total + products, op.result)


def _print(run: TileInterpreter, op: PrintOp, *values: Array) -> None:
    bare = set() if op.unsigned is None else set(op.unsigned.get_values())
    arrays = [unsigned(array) if number in bare else array for number, array in enumerate(values)]
    shown = [_shown(run, value, array) for value, array in zip(op.values, arrays, strict=True)]
    run.state.on_print(" ".join(filter(None, (op.prefix.data, *shown))))


def _shown(run: TileInterpreter, value: SSAValue, array: Array) -> str:
    """A value as text; elements that a ragged range has finished as `--`."""
    active = run.state.active(axes_of(value))
    if active is None or not axes_of(value):
        return str(array)
    return str(np.ma.masked_array(array, np.broadcast_to(~active, np.shape(array))))


def _assert(run: TileInterpreter, op: AssertOp, condition: Array) -> None:
    axes = axes_of(op.condition)
    failed = ~np.asarray(condition)
    if (active := run.state.active(axes)) is not None:
        failed = failed & active
    if failed.any():
        where = np.unravel_index(int(np.argmax(failed)), failed.shape) if axes else ()
        raise run.state.fault(op, op.message.data, _facts_of(run, op, axes, where))


def _reduce(_: TileInterpreter, op: ReductionOp, tile: Array) -> Array:
    """A tile reduced in its own dtype; the neutral element where the axis has no positions."""
    kind = kind_of(op)
    is_bool, tile, axis = np.asarray(tile).dtype == np.bool_, _seen(kind, tile), axes_of(op.tile).index(op.axis.data)
    least, greatest = _extremes(tile.dtype, is_bool)
    initial = {"sum": 0, "product": 1}.get(kind, least if kind.startswith("max") else greatest)
    result = _COMBINE[kind].reduce(tile, axis=axis, dtype=tile.dtype, initial=tile.dtype.type(initial))
    return _of_type(result, op.result)


def _seen(kind: str, tile: Array) -> Array:
    """A tile's integers as the combination reads them: signed or unsigned."""
    return unsigned(np.asarray(tile)) if kind.endswith("ui") else signed(tile)


def _extremes(dtype: np.dtype[Any], is_bool: bool) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    if is_bool:
        return (0, 1) if dtype.kind == "u" else (-1, 0)
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _of_type(array: Array, value: SSAValue) -> Array:
    element = element_of(value)
    return rounded(array, element) if is_float(element) else wrapped(array, dtype_of(element))


def _facts_of(run: TileInterpreter, op: AssertOp, axes: Sequence[str], where: Sequence[Any]) -> str:
    """Where an assertion fails first, and the values there that its condition was computed from."""
    position = ", ".join(f"{axis} = {int(p)}" for axis, p in zip(axes, where, strict=True))
    values, made = [], op.condition.owner
    bare = isinstance(made, arith.CmpiOp) and made.relation.startswith("u")
    for value in getattr(made, "operands", ()):
        array = np.asarray(run.get_values((value,))[0])
        array = unsigned(array) if bare else array
        at = dict(zip(axes, where, strict=True))
        if all(axis in at for axis in axes_of(value)):
            name = f"`{value.name_hint}`" if value.name_hint else "a value"
            values.append(f"{name} is {array[tuple(at[axis] for axis in axes_of(value))]}")
    return "; ".join(filter(None, (f"at {position}" if position else "", ", ".join(values))))


COMPUTE_HANDLERS: dict[type[Operation], Handler] = {
    ScaleOp: elementwise(_scaled),
    BroadcastOp: _broadcast,
    SpillOp: lambda _, op, tile: tile,
    ReloadOp: lambda _, op, spilled: spilled,
    PositionOp: _positions,
    BelowOp: lambda run, op, count: _positions(run, op) < count,
    **dict.fromkeys(REDUCTIONS, _reduce),
    ScanOp: _scan,
    ScanByOp: _scan_by,
    LastOp: _last,
    InterleaveOp: lambda _, op, *tiles: np.stack(tiles, -1).reshape(*np.shape(tiles[0])[:-1], -1),
    DotOp: _dot,
    PrintOp: _print,
    AssertOp: _assert,
    **WORD_HANDLERS,
    **SCALED_HANDLERS,
}
