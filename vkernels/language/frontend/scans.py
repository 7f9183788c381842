"""Scans by functions of the author's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from vkernels.ir.dialect import BroadcastOp, CombinedOp, ScanByOp, arith
from vkernels.ir.errors import UnsupportedError

from ..operation import Mistake
from ..values import Axis, Tile
from .types import computed_element, type_of
from .whole import WholeAxes

Combination = Callable[[Sequence[Tile], Sequence[Tile]], Sequence[Tile]]
"""Combines two elements, each a scalar of every tile."""


class OwnScans(WholeAxes):
    """The part of the builder that scans by the author's own functions."""

    def scan_by(self, f: Combination, tiles: Sequence[Tile], initial: Sequence[Tile], along: Axis) -> list[Tile]:
        """The inclusive scan of tiles, which have the same axes. `initial`: scalars of the element before the first."""
        count, axes = len(tiles), tiles[0].axes
        block = Block(arg_types=[computed_element(tile.dtype) for tile in tiles] * 2)
        scalars = [Tile(arg, tile.dtype) for arg, tile in zip(block.args, (*tiles, *tiles), strict=True)]
        with self.apart(block):
            ends = [tile.ssa for tile in f(scalars[:count], scalars[count:])]
        used = _from_outside(block, ends)
        here = [block.insert_arg(value.type, len(block.args)) for value in used]
        for number, value in enumerate(used):
            block.insert_arg(value.type, count + number)
        for value, argument in zip(used, here, strict=True):
            value.replace_uses_with_if(argument, lambda use: use.operation.parent is block)
        with self.inside(block):
            self.insert(CombinedOp([*(here[used.index(end)] if end in used else end for end in ends), *here]))
        beside = [self.result(BroadcastOp(value, type_of(value.type, axes))) if axes else value for value in used]
        op = ScanByOp(
            [*(tile.ssa for tile in tiles), *beside], [*(tile.ssa for tile in initial), *used], along.name,
            Region(block),
        )  # fmt: skip
        self.insert(op)
        return [Tile(ssa, tile.dtype, axes) for ssa, tile in zip(op.results, tiles, strict=False)]


def _from_outside(block: Block, ends: Sequence[SSAValue]) -> list[SSAValue]:
    """The scalars from outside that a function of elements uses."""
    values = [*ends]
    for op in block.ops:
        if op.regions or op.dialect_name() not in (arith.ARITH.name, "math"):
            raise Mistake(
                UnsupportedError,
                "a function of two elements is made of elementwise operations",
                "It may use its two arguments, scalars and numbers; choose by `vk.where`.",
            )
        values += op.operands
    found = [value for value in dict.fromkeys(values) if not _is_inside(value, block)]
    if any(isinstance(value.type, TensorType) for value in found):
        raise Mistake(
            UnsupportedError,
            "a function of two elements uses a tile from outside",
            "Make the tile part of the elements: `vk.scan(f, (x, tile), axis=…)`.",
        )
    return found


def _is_inside(value: SSAValue, block: Block) -> bool:
    return value.owner is block or (isinstance(value.owner, Operation) and value.owner.parent is block)
