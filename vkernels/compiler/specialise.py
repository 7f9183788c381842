"""The facts that a compiled kernel may assume of its calls: few, so that one kernel serves many shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from vkernels.ir.analysis.axes import known_value
from vkernels.ir.analysis.half_sums import sizes_of_half_sums
from vkernels.ir.dialect import KernelOp, ScratchOp, SizeOp, TensorArgumentType, TileOp, WholeOp, WriteOp
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.plan import Plan
from vkernels.ir.transforms.block_sums.bounds import sum_bounds

from .arguments import ArrayView
from .array_layout import is_aligned, is_large
from .size_classes import EXACT, WIDE, SizeClass

Code = TypeVar("Code")


def kernel_in(module: ModuleOp) -> KernelOp:
    """The one kernel of a module."""
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    return kernel


def written_tensors(kernel: KernelOp) -> tuple[str, ...]:
    """Names of the parameters that the kernel stores to, in their order."""
    bases = [op.base for op in kernel.walk() if isinstance(op, WriteOp)]
    numbers = {base.index for base in bases if isinstance(base, BlockArgument) and base.block is kernel.body.block}
    return tuple(kernel.parameters.data[number].data for number in sorted(numbers))


def specialised(
    make: Callable[[Facts], Code],
    kernel: KernelOp,
    plan: Plan,
    sizes: Mapping[str, int],
    tensors: Mapping[str, ArrayView],
    for_gpu: bool,
    size_class: SizeClass = EXACT,
) -> Code:
    """The result of `make` for the facts of a call: for few facts, so that the code serves many calls.

    Where the plan needs more, as for a value that takes memory along a whole axis, the exact sizes of all whole axes
    are added, or the class's largest of those that change. Raises what `make` raises.
    """
    try:
        return make(facts_for(kernel, plan, sizes, tensors, False, for_gpu, size_class))
    except PlanError:
        return make(facts_for(kernel, plan, sizes, tensors, True, for_gpu, size_class))


def facts_for(
    kernel: KernelOp,
    plan: Plan,
    sizes: Mapping[str, int],
    tensors: Mapping[str, ArrayView],
    exact_whole: bool = False,
    for_gpu: bool = False,
    size_class: SizeClass = EXACT,
) -> Facts:
    """The facts of a call that its plan can use.

    Strides of 0 and 1; that a tile or chunk divides an extent, so that no tail is needed; the exact sizes behind a
    whole axis that is held at once or has scratchpad, or behind every whole axis if `exact_whole`; bounds of sizes
    along which floats are summed. Sizes that change within the `size_class`, which must hold the call's, are not known:
    in place of an exact size there is a capacity, the largest of the class. `for_gpu`: also that 16 divides an extent,
    that accesses of 16 bytes divide a row, which tensors are aligned and which are large, for wide loads and narrow
    offsets, and that an extent has a whole chunk, so that the loop over it runs.
    Tensors are distinct: where some are the same, the kernel uses one in place of all (`with_one_for`).
    """
    planned = Facts(size_class.largest(sizes))
    needed: set[str] = set()
    multiples = dict.fromkeys(sorted(size_class.wide), WIDE)
    least: dict[str, int] = {}
    stored = {axis for op in kernel.walk() if isinstance(op, ScratchOp) for axis in op.result.type.shape}
    for axis in kernel.body.block.ops:
        if not isinstance(axis, TileOp | WholeOp):
            continue
        behind = _sizes_behind(axis.extent)
        length = known_value(axis.extent, planned)
        if isinstance(axis, WholeOp) and (
            exact_whole or axis.axis.data in stored or _is_held(axis.axis.data, plan, length)
        ):
            needed |= behind
        elif isinstance(axis.extent.owner, SizeOp):
            (size,) = behind
            if size in size_class.most:
                continue
            for step in (_step(axis, plan, sizes[size]), *([WIDE] if for_gpu else [])):
                if step > 1 and sizes[size] % step == 0:
                    multiples[size] = lcm(multiples.get(size, 1), step)
            if isinstance(axis, WholeOp) and 0 < (chunk := plan.chunks.get(axis.axis.data, 1)) <= sizes[size]:
                least[size] = max(least.get(size, 1), chunk)
    for size in sizes_of_half_sums(kernel) if for_gpu else ():
        if size not in size_class.most and sizes[size] % 2 == 0:
            multiples[size] = lcm(multiples.get(size, 1), 2)
    types = {name.data: a.type for name, a in zip(kernel.parameters, kernel.body.block.args, strict=True)}
    declared = {name: type_.shape for name, type_ in types.items() if isinstance(type_, TensorArgumentType)}
    for size, step in _accesses_along(tensors, declared) if for_gpu else ():
        if size not in size_class.most and sizes[size] % step == 0:
            multiples[size] = lcm(multiples.get(size, 1), step)
    exact = {size: sizes[size] for size in sorted(needed) if size not in size_class.most}
    capacities = {size: size_class.most[size] for size in sorted(needed) if size in size_class.most}
    multiples = {size: number for size, number in multiples.items() if size not in exact}
    bounds = sum_bounds(kernel, plan, planned.sizes, for_gpu)
    bounds = {size: most for size, most in bounds.items() if size not in exact}
    strides = {name: known_strides(view, declared.get(name, ())) for name, view in tensors.items()}
    facts = Facts(exact, multiples, strides, distinct=True, bounds=bounds, capacities=capacities)
    if not for_gpu:
        return facts
    aligned = tuple(name for name, view in tensors.items() if is_aligned(view))
    large = tuple(name for name, view in tensors.items() if is_large(view))
    least = {size: number for size, number in least.items() if size not in exact}
    return replace(facts, aligned=aligned, large=large, least=least)


def _accesses_along(
    tensors: Mapping[str, ArrayView], declared: Mapping[str, Sequence[str | int]]
) -> Iterator[tuple[str, int]]:
    """Sizes along which elements of a tensor are side by side, and how many of these the widest access has."""
    for name, view in tensors.items():
        for size, stride in zip(declared.get(name, ()), view.strides, strict=False):
            if isinstance(size, str) and stride == 1 and view.itemsize < WIDE:
                yield size, WIDE // view.itemsize


def _sizes_behind(extent: SSAValue) -> set[str]:
    if isinstance(extent.owner, SizeOp):
        return {extent.owner.size.data}
    if not isinstance(extent.owner, Operation):
        return set()
    return {size for operand in extent.owner.operands for size in _sizes_behind(operand)}


def _is_held(axis: str, plan: Plan, length: int | None) -> bool:
    """Whether the plan takes all of a whole axis at once. An empty axis has no chunk."""
    return length is not None and 0 < length <= plan.chunks.get(axis, 0) and axis not in plan.splits


def _step(axis: TileOp | WholeOp, plan: Plan, length: int) -> int:
    """The elements that the plan takes at a time. For a split axis, those of all programs together if that divides
    it."""
    name = axis.axis.data
    if isinstance(axis, TileOp):
        return plan.tiles.get(name, 1)
    chunk = plan.chunks.get(name, 1)
    together = chunk * plan.splits.get(name, 1)
    return together if length % together == 0 else chunk


def known_strides(view: ArrayView, declared: Sequence[str | int] = ()) -> tuple[int, ...]:
    """Strides of 0 and 1 that matter or that a last dimension has, and those that follow from them by sizes that are
    `declared` as numbers, such as 2 of a tensor of pairs; the others are unknown."""
    found: list[int] = []
    last = len(view.shape) - 1
    for number in range(last, -1, -1):
        length, stride = view.shape[number], view.strides[number]
        is_seen = length > 1 and view.size > 0
        is_known = stride in (0, 1) and (is_seen or number == last)
        if declared and found and found[0] > 0 and isinstance(size := declared[number + 1], int):
            is_known = is_known or (is_seen and stride == size * found[0])
        found.insert(0, stride if is_known else UNKNOWN)
    return tuple(found)
