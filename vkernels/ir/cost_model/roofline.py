"""The least time that a call can take within limits, whatever its plan.

It is the longest of these, and one launch on top, which no call goes without:
- memory: the bytes of all elements that the call reads and of all that it writes, each once, at the memory's
  bandwidth, or at what programs draw from the last cache where that is less: of a GPU's slice of few multiprocessors.
  A CPU's last cache may have kept what it holds from the call before;
- operations: elementwise work, reductions, scans and dots that no tensor core takes, at the peak of plain units, two
  for each multiply-add, as if every operation found another to be fused with; those on f64 by their own units;
- tensor cores: dots at the peak for their dtype, where the device has them for it;
- shared memory, on a GPU: what is moved to and from the author's scratchpads, as their elements are found by indices
  that registers do not take. Rows that indices find meet in banks: they are as long as the memory of a program allows;
- chain, on a GPU: the operations that each trip of a loop has to do one after another on what the trip before left.
Every operation is done once for each position of its axes that masks of positions do not leave out: nothing is read or
computed twice, and no tile has anything in excess.

Where indices come out of other tensors they may point anywhere: of a tensor larger than the last cache, what that does
not hold is read again for every element. A loop whose bounds come out of tensors makes as many trips
as planning takes it to make; of such kernels this is the roofline of data of that kind.
What programs draw of such tensors comes from the last cache again, too, but for what the first cache of a
multiprocessor holds: each multiprocessor takes at least a line, or a sector, of every row that indices may find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation

from ..analyses import annotate_needs, phases_of
from ..analysis.axes import resolve_axes
from ..analysis.kernel_analysis import KernelAnalysis
from ..analysis.needs import Needs
from ..analysis.needs.flow import axes_touched
from ..analysis.needs.traffic import LEAST_SIDE, OPERATION_COUNTS, UNCOUNTED_OPERATIONS
from ..analysis.schedule.find_copies import find_copies
from ..analysis.schedule.make_schedule import make_schedule
from ..analysis.words import narrow_dot
from ..dialect import AccessOp, DotOp, KernelOp, TensorArgumentType, axes_of, element_of
from ..dot_units import units_for
from ..errors import PlanError
from ..facts import Facts
from ..limits import Limits
from ..plan import Home, Plan, StructuralChoices
from ..word_kinds import MATRIX_SIDE
from .bank_conflicts import times_of_rows
from .chains import chain_cycles
from .core_rates import cpu_rates
from .extents import extents_of
from .gpu import CACHE_REACHED, GPU_LEVEL_1, MEMORY_SECTOR, room_of
from .item_widths import bytes_of, tensor_dtype, tensor_rate
from .least_traffic import BytesOfTensor, bytes_of_tensors
from .loops import Axes, Loop, LoopAccess, LoopStep
from .plan_batch import PlanBatch
from .read_loops import read_loops

A_MULTIPLY_ADD = 2
"""Operations."""


@dataclass(frozen=True)
class Roofline:
    """Seconds by what takes them, and of one launch. `moved`: bytes to and from memory."""

    parts: Mapping[str, float]
    launch: float
    moved: float

    @property
    def seconds(self) -> float:
        """The longest part and the launch."""
        return max(self.parts.values()) + self.launch

    @property
    def bottleneck(self) -> str:
        """The longest part."""
        return max(self.parts, key=lambda name: self.parts[name])


def roofline(kernel: KernelOp, sizes: Mapping[str, int], limits: Limits, needs: Needs | None = None) -> Roofline:
    """The roofline of a kernel for a call's sizes by name. `needs`: the kernel's, where they are at hand.

    Raises `PlanError` for a size that is missing, `UnsupportedError` for a kernel that cannot be read.
    """
    needs = annotate_needs(kernel) if needs is None else needs
    needs.extents(sizes)  # each size must be given
    kernel = phases_of(kernel)
    extents = {name: max(1, extent) for name, extent in extents_of(kernel, sizes).items()}
    work = list(_work(kernel, needs, extents, sizes))
    tensors = bytes_of_tensors(kernel, [(each.loop, each.step, each.part) for each in work], extents, sizes)
    moved = sum(each.moved + _found_again(each, limits) for each in tensors)
    drawn = max(moved, sum(each.moved + _drawn_again(each, limits) for each in tensors))
    return Roofline(_parts(kernel, work, moved, drawn, extents, limits), limits.launch_seconds, moved)


@dataclass(frozen=True)
class _Work:
    """An operation of the kernel: its loop and step, how often it is done, and the part of its positions that masks let
    through."""

    op: Operation
    loop: Loop
    step: LoopStep
    times: float
    part: float

    @property
    def is_wide(self) -> bool:
        """Whether it is done on floats of 64 bits."""
        return any(str(element_of(value.type)) == "f64" for value in self.op.operands if axes_of(value))


def _work(kernel: KernelOp, needs: Needs, extents: Mapping[str, int], sizes: Mapping[str, int]) -> Iterator[_Work]:
    """Every operation once, as a plan does it that takes one position at a time, and computes nothing again."""
    tiles = tuple(axis.name for axis in needs.axes if axis.is_tile)
    loops = _loops(kernel, needs, tiles, sizes)
    at = PlanBatch(loops, StructuralChoices(order=tiles), dict.fromkeys(extents, 1), extents, sizes_of_call=sizes)
    found: dict[Operation, _Work] = {}
    for loop in loops:
        visited = at.within(loop).visited
        for step in loop.steps:
            op = step.origin
            if op is None or _is_of_home(step, op):
                continue
            axes = dict.fromkeys((*axes_touched(op), *step.axes))
            around = dict.fromkeys((*loop.ranges, *step.ranges))
            # Positions that are left out for some positions of an axis that is not the operation's are not for all.
            left = {visit.axis: visited[visit.axis] for visit in loop.visits if visit.axes <= axes.keys()}
            part = float(prod(left.values()))
            times = (
                prod(extents.get(axis, 1) for axis in (*axes, *(each for each in around if each not in axes))) * part
            )
            if op not in found or found[op].times < times:
                found[op] = _Work(op, loop, step, times, part)
    yield from found.values()


def _is_of_home(step: LoopStep, op: Operation) -> bool:
    """Whether a step stores or loads what an operation makes, and is not the operation itself."""
    is_scratch = isinstance(op, AccessOp) and not isinstance(op.base.type, TensorArgumentType)
    return step.touch is not None and step.touch.home is not None and not is_scratch


def _loops(kernel: KernelOp, needs: Needs, tiles: Axes, sizes: Mapping[str, int]) -> tuple[Loop, ...]:
    """What runs in which loop where all that crosses phases is stored."""
    facts = Facts(dict(sizes), distinct=True)
    labels = [value.label for value in needs.crossing if Home.MEMORY in value.homes]
    chunks = {axis.name: 1 for axis in needs.axes if not axis.is_tile}
    for homes in (dict.fromkeys(labels, Home.MEMORY), {}):
        plan = Plan(dict.fromkeys(tiles, 1), chunks, homes)
        try:
            analysis = KernelAnalysis(kernel, {}).under(resolve_axes(kernel, plan, facts))
            return read_loops(make_schedule(analysis, plan, facts, find_copies(analysis, plan)), plan)
        except PlanError as error:
            refused = error
    raise refused


def _parts(
    kernel: KernelOp, work: list[_Work], moved: float, drawn: float, extents: Mapping[str, int], limits: Limits
) -> dict[str, float]:
    plain, wide, tensor, scratch = 0.0, 0.0, 0.0, 0.0
    for each in work:
        op, step = each.op, each.step
        if isinstance(op, DotOp):
            rate = _tensor_rate(op, step, extents, limits)
            seconds = each.times / rate if rate else 0.0
            tensor += seconds
            operations = 0.0 if rate else A_MULTIPLY_ADD * each.times / _on_a_unit(op, limits)
        elif isinstance(op, AccessOp):
            is_tensor = isinstance(op.base.type, TensorArgumentType)
            if not is_tensor:
                met = _times_of_banks(op, step, extents, limits)
                scratch += met * each.times * bytes_of(op.base.type.element)  # type: ignore[attr-defined]
            continue
        else:
            counted = not isinstance(op, UNCOUNTED_OPERATIONS) and not op.regions and axes_touched(op)
            operations = OPERATION_COUNTS.get(op.name, 1) * each.times if counted else 0.0
        plain, wide = plain + operations * (not each.is_wide), wide + operations * each.is_wide
    bandwidth = limits.cache_bandwidth * (CACHE_REACHED if limits.warp > 1 else 1)
    kept = 0 if limits.warp > 1 else min(moved, limits.cache)
    rates = limits.multiply_adds
    return {
        "memory": max((moved - kept) / limits.memory_bandwidth, drawn / bandwidth),
        "operations": max(plain / rates["float32"], wide / rates.get("float64", rates["float32"])) / A_MULTIPLY_ADD,
        "tensor cores": tensor,
        "shared memory": scratch / limits.shared_bandwidth if limits.warp > 1 else 0.0,
        "chain": chain_cycles(kernel, extents) / limits.clock if limits.warp > 1 else 0.0,
    }


def _times_of_banks(op: AccessOp, step: LoopStep, extents: Mapping[str, int], limits: Limits) -> float:
    """How many times as long an access of a scratchpad takes as without conflicts of banks, at least: where indices
    find rows, of as many elements as there is room for of all rows. 1 where there is no room for one."""
    touch = step.touch
    if touch is None or not touch.found or limits.warp == 1:
        return 1.0
    sides = [extents.get(side, 1) if isinstance(side, str) else side for side in op.base.type.shape]  # type: ignore[attr-defined]
    row = [size for side, size in zip(op.base.type.shape, sides, strict=True) if side in _along_rows(touch)]  # type: ignore[attr-defined]
    room = limits.shared * prod(row) // (prod(sides) * touch.element_bytes)
    if not room:
        return 1.0
    together = min(prod(row), 1 << (room.bit_length() - 1))  # sides of tiles are powers of two
    return float(times_of_rows(together * touch.element_bytes))


def _along_rows(touch: LoopAccess) -> set[str]:
    return set(touch.axes) - set(touch.found)


def _on_a_unit(op: DotOp, limits: Limits) -> float:
    """Products that a CPU's dot unit makes in the time of one multiply-add; 1 where there is none for the dot."""
    narrow = narrow_dot(op)
    on = units_for(limits.dot_units, *narrow.elements) if narrow is not None and limits.dot_units else []
    rates = [each.unit.rate * (MATRIX_SIDE / cpu_rates(limits).vectors if each.unit.is_matrix else 1) for each in on]
    return max(rates, default=1.0)


def _tensor_rate(op: DotOp, step: LoopStep, extents: Mapping[str, int], limits: Limits) -> float:
    """Multiply-adds a second on tensor cores; 0 where they take no such dot."""
    if any(prod(extents.get(axis, 1) for axis in side) < LEAST_SIDE for side in step.sides):
        return 0.0
    return tensor_rate(tensor_dtype(op), limits)


def _found_again(tensor: BytesOfTensor, limits: Limits) -> float:
    """Bytes that are read more than once because the indices may point anywhere."""
    again = max(0.0, tensor.gathered - tensor.whole)
    return again * max(0.0, 1 - limits.cache / max(1, tensor.whole))


def _drawn_again(tensor: BytesOfTensor, limits: Limits) -> float:
    """Bytes that come from the last cache more than once because the first cache of a multiprocessor, or of a core,
    holds no more of them."""
    again = max(0.0, tensor.gathered - tensor.whole)
    taken = tensor.whole * min(1.0, MEMORY_SECTOR / max(1.0, tensor.row))
    return again * max(0.0, 1 - _first_cache(limits) / max(1.0, taken))


def _first_cache(limits: Limits) -> int:
    """Bytes of a multiprocessor's first cache at most; of a CPU's core, of its second."""
    if limits.warp == 1:
        return limits.shared
    room = room_of(limits)
    return GPU_LEVEL_1 if room.is_apart else max(GPU_LEVEL_1, room.shared)
