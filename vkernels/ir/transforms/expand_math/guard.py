"""Work that few elements need, done only when one of them is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region

from ...dialect.attributes import axes_of
from ...dialect.compute import MaxOp
from .values import Float, FormulaEmitter, select


def unless_rare(size: Float, limit: float, common: Sequence[Float], rare: Callable[[], Sequence[Float]]) -> list[Float]:
    """`common`, but `rare()` for the elements where `size` exceeds the limit.

    What `rare` records runs only where a scalar or an element of the tile is that large, so it costs one reduction
    otherwise; for vectors, which have no reduction here, it always runs. Each element's result depends on it alone.
    """
    emitter = size.emitter
    if not isinstance(size.type, TensorType) and size.type != size.element:
        return _choose(size, limit, common, rare())
    largest = size
    for axis in reversed(axes_of(size.type)):
        largest = _maximum(largest, axis)
    condition = largest.not_at_most(limit)  # a NaN hides what is beside it
    outer, emitter.operations = emitter.operations, []
    chosen = _choose(size, limit, common, rare())
    emitter.operations.append(scf.YieldOp(*(value.ssa for value in chosen)))
    inside, emitter.operations = emitter.operations, outer
    otherwise = scf.YieldOp(*(value.ssa for value in common))
    types = [value.type for value in common]
    branch = scf.IfOp(condition.ssa, types, Region(Block(inside)), Region(Block([otherwise])))
    branch.location = emitter.replaced.location
    emitter.operations.append(branch)
    return [Float(emitter, result) for result in branch.results]


def _choose(size: Float, limit: float, common: Sequence[Float], rare: Sequence[Float]) -> list[Float]:
    large = size > limit
    return [select(large, unusual, usual) for unusual, usual in zip(rare, common, strict=True)]


def _maximum(tile: Float, axis: str) -> Float:
    reduction = MaxOp(tile.ssa, axis)
    emitter: FormulaEmitter = tile.emitter
    reduction.location = emitter.replaced.location
    emitter.operations.append(reduction)
    return Float(emitter, reduction.result)
