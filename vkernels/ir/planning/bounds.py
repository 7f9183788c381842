"""Bounds of a plan's numbers, from the kernel's axes alone, and powers of two for GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from ..analysis.needs.records import Dot
from ..dialect import KernelOp, TensorArgumentType, TileOp, WholeOp
from ..limits import Limits
from ..pin import Pin
from ..plan import Plan

_ELEMENTS_A_THREAD = 8
_MOST_WARPS = 8


def power_above(number: int) -> int:
    """The least power of two that is not below a number; 1 for numbers below 1."""
    return 1 << max(0, number - 1).bit_length()


def power_below(number: int) -> int:
    """The largest power of two that is not above a number; 1 for numbers below 1."""
    return 1 << max(1, number).bit_length() - 1


def warps_for(elements: int, limits: Limits) -> int:
    """Warps for a tile: about eight elements a thread, eight warps at most."""
    wanted = power_below(elements // (_ELEMENTS_A_THREAD * limits.warp))
    return min(wanted, _MOST_WARPS, power_below(limits.threads // limits.warp))


THIN_SIDE = 8
"""A dot's side of fewer positions leaves a CPU's accumulators idle, whose lanes then lie as well along what it
contracts: there the rows of both operands may be contiguous, as the weights of a matrix times a vector are."""


def contracted_thinly(dots: Iterable[Dot], extents: Mapping[str, int]) -> set[str]:
    """The axes that dots with a thin side contract."""

    def positions(axes: Iterable[str]) -> int:
        return prod(extents[axis] for axis in axes)

    return {dot.axis for dot in dots if min(positions(dot.rows), positions(dot.columns)) < THIN_SIDE}


MAX_LANE_AXES = 3
"""Axes along the lanes that are tried, and others where small products are alike, or much work has none of these."""
SWAP = 0.5
"""Part of a device's memory that swap space, or private copies, may take: the rest holds tensors."""
MOST_AT_ONCE = 1 << 20
"""Elements of a program's tile axes together, and of a chunk: Triton's tensors have no more."""
MOST_ON_CPU = 1 << 16
"""The same on a CPU, which unrolls them: code for more takes minutes to compile."""
TIMES_CORES = 64
"""Programs that share a whole axis, for each core of a CPU; one core's, where there is but one."""


def most_shares(limits: Limits) -> int:
    """The most programs that a whole axis is split over: beyond, combining what they found takes longer."""
    cores = limits.multiprocessors
    return power_above(4 * cores) if limits.warp > 1 else TIMES_CORES * max(1, cores)


def tensors_of(kernel: KernelOp) -> dict[str, TensorArgumentType]:
    """The types of a kernel's tensor parameters by name."""
    parameters = zip(kernel.parameters, kernel.body.block.args, strict=True)
    return {p.data: arg.type for p, arg in parameters if isinstance(arg.type, TensorArgumentType)}


def beyond_bounds(kernel: KernelOp, limits: Limits, plan: Plan, pin: Pin | None = None) -> str | None:
    """Why a plan's numbers are out of any bounds on this kernel's axes; None if they are not.

    What the author pinned is not asked about. It reads no needs, so that a first call has time for it.
    """
    pin = pin or Pin()
    axes = {op.axis.data: op for op in kernel.walk() if isinstance(op, TileOp | WholeOp)}
    named = (*plan.tiles, *plan.chunks, *plan.splits, *plan.order, *plan.warp_specialized)
    for name in (*named, *([] if plan.lanes is None else [plan.lanes])):
        if name not in axes:
            return f"it names axis {name}; the kernel has {', '.join(axes) or 'none'}"
    tensors = tensors_of(kernel)
    for name in (*plan.packs, *plan.streams, *plan.descriptors, *plan.k_major):
        if name not in tensors:
            return f"it names tensor {name}; the kernel has {', '.join(sorted(tensors)) or 'none'}"
    most = most_shares(limits)
    for axis, programs in plan.splits.items():
        if programs > most and axis not in pin.splits:
            return f"it splits axis {axis} over {programs} programs; {most} are the most that pay"
    if plan.private_copies > most and pin.private_copies is None:
        return f"it has {plan.private_copies} private copies; {most} are the most that pay"
    most = MOST_AT_ONCE if limits.warp > 1 else MOST_ON_CPU
    for axis, chunk in plan.chunks.items():
        if chunk > most and axis not in pin.chunks:
            return f"it takes {chunk} elements of axis {axis} at once, of {most} at most"
    tile = prod(size for axis, size in plan.tiles.items() if axis not in pin.tiles)
    return None if tile <= most else f"a program takes {tile} elements of the tile axes, of {most} at most"


def subsets(groups: Sequence[set[str]]) -> Iterator[frozenset[str]]:
    """The unions of any of some groups, none first."""
    for number in range(1 << len(groups)):
        yield frozenset[str]().union(*(group for bit, group in enumerate(groups) if number >> bit & 1))
