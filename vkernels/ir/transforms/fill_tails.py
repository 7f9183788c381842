"""Store zeros to scratchpads where a tile's tail ends, so that what is loaded from them needs no mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DenseArrayBase, IntegerType, ModuleOp, StringAttr, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialect import (
    AccessOp,
    BelowOp,
    BroadcastOp,
    GatherOp,
    IndexAttr,
    LaunchOp,
    LoadOp,
    MappedOp,
    ScratchType,
    StoreOp,
    arith,
    axes_of,
    sizes_of,
    tile_type,
)
from ..dialect.combining import constant


@dataclass(frozen=True)
class FillTails(ModulePass):
    """Let accesses of a scratchpad take all lanes where a bound tells which are in range.

    A load gives 0 for an element that is out of range. A scratchpad belongs to its program and is as long as the tile,
    so stores may write zeros there instead of nothing, and loads are plain. For lowerings where a masked load is no
    operand of arithmetic. Only for floats, and for scratchpads whose every store writes the whole of the lanes' axis.
    """

    name = "fill-tails"
    result = "mapped IR whose loads from scratchpads need no mask in the tails of tiles"

    def apply(self, context: Context, module: ModuleOp) -> None:
        fill_tails(module)


def fill_tails(module: ModuleOp) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp) and mapped.lanes is not None:
            for launch in mapped.body.block.ops:
                if isinstance(launch, LaunchOp):
                    _in_launch(launch, mapped.lanes.data)


def _in_launch(launch: LaunchOp, lanes: str) -> None:
    uses: dict[ScratchType, list[Operation]] = {}
    for op in launch.walk():
        for type_ in dict.fromkeys(value.type for value in op.operands if isinstance(value.type, ScratchType)):
            uses.setdefault(type_, []).append(op)
    for type_, users in uses.items():
        if isinstance(type_.element, AnyFloat) and all(_is_whole(op, lanes) for op in users):
            for access in users:
                if isinstance(access, StoreOp) and lanes in access.bounds:
                    _fill(access, lanes)
                elif isinstance(access, LoadOp | GatherOp) and _is_bounded_only(access, lanes):
                    Rewriter.replace_op(access, _unbounded(access, lanes, []))


def _is_whole(op: Operation, lanes: str) -> bool:
    """Whether an operation on a scratchpad hands it on, or accesses all positions of the lanes' axis, as they are."""
    if isinstance(op, scf.ForOp | scf.YieldOp | scf.IfOp):
        return True
    if not isinstance(op, AccessOp) or lanes not in axes_of(op.tile):
        return False
    if isinstance(op, StoreOp):
        if op.atomic is not None or op.mask is not None or op.guarded_dimensions:
            return False
    elif not isinstance(op, LoadOp | GatherOp) or any(lanes in axes_of(offset) for offset in op.offsets):
        return False
    size = sizes_of(op.tile)[lanes]
    shape = [extent for index, extent in zip(op.index, op.memory.shape, strict=True) if _names(index, lanes)]
    plain = IndexAttr([(lanes, 1)], -1)
    return shape == [size] and plain in op.index.data


def _names(index: IndexAttr, lanes: str) -> bool:
    return any(axis == lanes for axis, _ in index.terms)


def _is_bounded_only(access: AccessOp, lanes: str) -> bool:
    """Whether a bound, and neither a mask nor a guard, tells which lanes are in range."""
    return lanes in access.bounds and access.mask is None and not access.guarded_dimensions


def _fill(store: StoreOp, lanes: str) -> None:
    """Store zeros to the lanes that are out of range."""
    loaded = store.value.owner
    if isinstance(loaded, LoadOp | GatherOp) and loaded.bounds.get(lanes) == store.bounds[lanes]:
        filled, value = list[Operation](), store.value  # zeros are there already
    else:
        type_ = store.value.type
        below = BelowOp(lanes, store.bounds[lanes], sizes_of(type_)[lanes])
        mask = BroadcastOp(below.result, tile_type(i1, axes_of(type_), sizes_of(type_).values()))
        zero = constant(type_, 0)
        chosen = arith.SelectOp(mask.result, store.value, zero.result)
        filled, value = [below, mask, zero, chosen], chosen.result
    Rewriter.insert_op(filled, InsertPoint.before(store))
    Rewriter.replace_op(store, _unbounded(store, lanes, [value]))


def _unbounded(access: AccessOp, lanes: str, values: Sequence[SSAValue]) -> AccessOp:
    """The same access of `values`, without the bound of the lanes."""
    bounds = {axis: count for axis, count in access.bounds.items() if axis != lanes}
    sizes = [1] * len(values) + [1, len(access.offsets), len(bounds), int(access.mask is not None)]
    return type(access).create(
        operands=[*values, access.base, *access.offsets, *bounds.values(), *([access.mask] if access.mask else [])],
        properties={
            **access.properties,
            "within": ArrayAttr(StringAttr(axis) for axis in bounds),
            "operandSegmentSizes": DenseArrayBase.from_list(IntegerType(32), sizes),
        },
        attributes=access.attributes,
        result_types=[result.type for result in access.results],
        location=access.location,
    )


__all__ = ["FillTails", "fill_tails"]
