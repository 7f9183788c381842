"""Bounds of sizes that decide how a kernel's sums are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis.block_lengths import BlockLengths
from ...dialect import DotOp, KernelOp, RangeOp, ScanOp, SizeOp, SumOp, WholeOp, element_of
from ...plan import Plan
from .paths import SUMMED_FLOATS, Path, is_for_matrix_units

ANY = 1 << 48
"""More elements than any tensor has."""


def sum_bounds(kernel: KernelOp, plan: Plan, sizes: Mapping[str, int], on_gpu: bool) -> dict[str, int]:
    """For each size along which floats are summed, the smallest relevant bound that it does not exceed.

    Sums of at most one block are not cut, those of a few blocks are cut once, and longer ones twice. Longer ones have a
    bound too, to distinguish them from sums whose length depends on data.
    """
    lengths, found = BlockLengths.on(on_gpu), dict[str, int]()
    for size, *blocks in _blocks(kernel, plan, lengths, on_gpu):
        for bound in (*blocks, blocks[0] * lengths.blocks, ANY):
            if sizes[size] <= bound:
                found[size] = min(bound, found.get(size, bound))
    return found


def _blocks(kernel: KernelOp, plan: Plan, lengths: BlockLengths, on_gpu: bool) -> Iterator[tuple[Any, ...]]:
    """Sizes along which floats are summed, each with the elements of a block, and of the block of a matrix unit, which
    adds the products of a chunk up before it adds them to the sum."""
    axes = {op.axis.data: op for op in kernel.body.block.ops if isinstance(op, WholeOp)}
    for op in kernel.walk():
        if isinstance(op, SumOp | DotOp | ScanOp) and op.axis.data in axes:
            name = op.axis.data
            extent = axes[name].extent.owner
            if isinstance(extent, SizeOp) and _is_summed(op, on_gpu):
                chunk = plan.chunks.get(name, 1)
                path = Path(products=chunk) if isinstance(op, DotOp) and name != plan.lanes else Path(adds=1)
                lengths_of = [lengths.iterations(path.adds, path.products)]
                if isinstance(op, DotOp) and not on_gpu and is_for_matrix_units(op):
                    lengths_of.append(lengths.iterations(adds=1, products=0))
                yield extent.size.data, *(length * chunk * plan.splits.get(name, 1) for length in lengths_of)
        elif isinstance(op, RangeOp) and isinstance(op.stop.owner, SizeOp) and _carries_floats(op):
            yield op.stop.owner.size.data, lengths.adds


def _carries_floats(op: RangeOp) -> bool:
    return any(isinstance(element_of(value), SUMMED_FLOATS) for value in op.carried)


def _is_summed(op: SumOp | DotOp | ScanOp, on_gpu: bool) -> bool:
    is_other_scan = isinstance(op, ScanOp) and op.kind.data != "sum"
    on_matrix_units = isinstance(op, DotOp) and on_gpu and is_for_matrix_units(op)
    return isinstance(element_of(op.results[0]), SUMMED_FLOATS) and not is_other_scan and not on_matrix_units
