"""The bounds of sizes that decide how a kernel's sums are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import SSAValue

from ...dialect import DotOp, KernelOp, RangeOp, ScanOp, SizeOp, SumOp, WholeOp, element_of
from ...plan import Plan
from .lengths import Lengths
from .paths import SUMMED_FLOATS, Path, is_for_matrix_units

ANY = 1 << 48
"""More elements than a tensor has."""


def sum_bounds(kernel: KernelOp, plan: Plan, sizes: Mapping[str, int], on_gpu: bool) -> dict[str, int]:
    """For each size along which floats are summed: the least bound that holds of it, of those that matter.

    Sums that are at most a block long are not cut, those of a few blocks are cut once, and longer ones twice. Of those
    too a bound is given, so that they differ from sums whose length only data tell.
    """
    lengths, found = Lengths.on(on_gpu), dict[str, int]()
    for size, block in _blocks(kernel, plan, lengths, on_gpu):
        for bound in (block, block * lengths.blocks, ANY):
            if sizes[size] <= bound:
                found[size] = min(bound, found.get(size, bound))
    return found


def _blocks(kernel: KernelOp, plan: Plan, lengths: Lengths, on_gpu: bool) -> Iterator[tuple[str, int]]:
    """Sizes along which floats are summed, each with the elements that a block has."""
    axes = {op.axis.data: op for op in kernel.body.block.ops if isinstance(op, WholeOp)}
    for op in kernel.walk():
        if isinstance(op, SumOp | DotOp | ScanOp) and op.axis.data in axes:
            name = op.axis.data
            size = _size_of(axes[name].extent)
            if size is None or not _is_summed(op, on_gpu):
                continue
            chunk = plan.chunks.get(name, 1)
            is_along = isinstance(op, DotOp) and name != plan.lanes
            path = Path(products=chunk) if is_along else Path(adds=1)
            yield size, lengths.iterations(path) * chunk * plan.splits.get(name, 1)
        elif isinstance(op, RangeOp) and any(isinstance(element_of(v.type), SUMMED_FLOATS) for v in op.carried):
            size = _size_of(op.stop)
            if size is not None:
                yield size, lengths.adds


def _is_summed(op: SumOp | DotOp | ScanOp, on_gpu: bool) -> bool:
    if isinstance(op, ScanOp) and op.kind.data != "sum":
        return False
    if isinstance(op, DotOp) and on_gpu and is_for_matrix_units(op):
        return False
    return isinstance(element_of(op.results[0].type), SUMMED_FLOATS)


def _size_of(extent: SSAValue) -> str | None:
    owner = extent.owner
    return owner.size.data if isinstance(owner, SizeOp) else None
