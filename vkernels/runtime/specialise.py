"""What a compiled kernel may assume of its calls: few facts, so that one serves many shapes, and those that matter."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from vkernels.ir.dialect import KernelOp, ScatterOp, SizeOp, StoreOp, TileOp, WholeOp
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.plan import Plan

from .arrays import ArrayView


def kernel_in(module: ModuleOp) -> KernelOp:
    """The one kernel of a module."""
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    return kernel


def written_tensors(kernel: KernelOp) -> tuple[str, ...]:
    """Names of the parameters that the kernel stores to, in their order."""
    bases = [op.base for op in kernel.walk() if isinstance(op, StoreOp | ScatterOp)]
    numbers = {base.index for base in bases if isinstance(base, BlockArgument) and base.block is kernel.body.block}
    return tuple(kernel.parameters.data[number].data for number in sorted(numbers))


def facts_for(
    kernel: KernelOp, plan: Plan, sizes: Mapping[str, int], tensors: Mapping[str, ArrayView], distinct: bool
) -> Facts:
    """The facts of a call that its plan can use.

    Strides of 0 and 1; that a tile or chunk divides an extent, so that no tail is needed; the exact size of a
    whole axis that is held at once.
    """
    exact: dict[str, int] = {}
    multiples: dict[str, int] = {}
    for axis in kernel.walk():
        if not isinstance(axis, TileOp | WholeOp) or (size := _size_behind(axis.extent)) is None:
            continue
        step = _step(axis, plan, sizes[size])
        if step is None:
            exact[size] = sizes[size]
        elif step > 1 and sizes[size] % step == 0:
            multiples[size] = lcm(multiples.get(size, 1), step)
    multiples = {size: number for size, number in multiples.items() if size not in exact}
    return Facts(exact, multiples, {name: known_strides(view) for name, view in tensors.items()}, distinct)


def _size_behind(extent: SSAValue) -> str | None:
    return extent.owner.size.data if isinstance(extent.owner, SizeOp) else None


def _step(axis: TileOp | WholeOp, plan: Plan, length: int) -> int | None:
    """The elements that the plan takes at a time; None for a whole axis held at once."""
    name = axis.axis.data
    if isinstance(axis, TileOp):
        return plan.tiles.get(name, 1)
    chunk = plan.chunks.get(name)
    if length == 0:  # no chunk at all, rather than one of no elements
        return chunk or 1
    if chunk is None or (length <= chunk and name not in plan.splits):
        return None
    together = chunk * plan.splits.get(name, 1)
    return together if length % together == 0 else chunk


def known_strides(view: ArrayView) -> tuple[int, ...]:
    """Strides of 0 and 1, where there is more than one element, and 1 in the last dimension; the others unknown."""
    last = len(view.shape) - 1
    return tuple(
        stride if stride in (0, 1) and (length > 1 or number == last) else UNKNOWN
        for number, (length, stride) in enumerate(zip(view.shape, view.strides, strict=True))
    )
