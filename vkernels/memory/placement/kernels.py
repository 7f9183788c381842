"""A kernel's launch for placement: bytes and accesses of each tensor, by the cost model of memory traffic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.cost_model.gpu import MEMORY_SECTOR, programs_at_once
from vkernels.ir.cost_model.item_widths import bytes_of
from vkernels.ir.cost_model.launches import parts_of
from vkernels.ir.cost_model.plan_batch import PlanBatch
from vkernels.ir.cost_model.traffic import CacheTraffic
from vkernels.ir.dialect import AccessOp, KernelOp, TensorArgumentType, WriteOp
from vkernels.ir.errors import OptionError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import batch_of, model_use, registers_of
from vkernels.ir.planning.space import read_space

from ..calibration import AccessCosts
from .program import MEMORY, Buffer, BufferUse, PlacedLaunch, PlacedProgram, Side

KEPT = 0.75
"""Part of the last cache that keeps data for the next read, as in the cost model."""


@dataclass
class Moved:
    """Bytes of one tensor to and from memory, and whether by indices."""

    read: float = 0.0
    written: float = 0.0
    scattered: bool = False


def program_of(launch: PlacedLaunch, sizes: Mapping[str, int]) -> PlacedProgram:
    """Return the program of one launch with inputs from the host and results for it. `sizes`: bytes of its tensors."""
    written = {use.buffer for use in launch.uses if use.written or use.put}
    fresh = {use.buffer for use in launch.uses if use.fresh}
    buffers = [
        Buffer(name, size, None if name in fresh else Side.HOST, wanted=name in written) for name, size in sizes.items()
    ]
    return PlacedProgram(tuple(buffers), (launch,))


def launch_of(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
    plan: Plan | None = None,
    pin: Pin | None = None,
) -> PlacedLaunch:
    """Return a kernel's call on a GPU under a plan (default: the chosen one).

    Raises `OptionError` for a CPU, `PlanError` for a plan that does not apply to the kernel.
    """
    if limits.warp == 1:
        raise OptionError("a CPU has one memory: there is nothing to place")
    plan = choose_plan(kernel, sizes, limits, strides=strides, pin=pin).plan if plan is None else plan
    space = read_space(kernel, sizes, limits, strides=strides, pin=pin)
    at = batch_of(space, plan)
    use = space.needs.evaluate(plan, sizes, NeedsDevice.of(limits))
    times = model_use(at, use, limits)
    registers = registers_of(at, use, limits)
    cached, uncached = defaultdict[str, Moved](Moved), defaultdict[str, Moved](Moved)
    for part in parts_of(at) if at.launched else [at]:
        at_once, _ = programs_at_once(part, limits, registers, use.shared_bytes)
        _add(cached, part, limits.cache * KEPT, at_once)
        _add(uncached, part, 0.0, 1)
    tensors = tensor_bytes(kernel, sizes)
    parts = {name: float(value) for name, value in times.parts.items()}
    moved = sum(each.read + each.written for each in cached.values())
    own = sum(each.read + each.written for name, each in cached.items() if name in tensors)
    drawn = max(1.0, parts.get(MEMORY, 0.0) * limits.memory_bandwidth / moved) if moved else 1.0
    parts[MEMORY] = parts.get(MEMORY, 0.0) * (1 - own / moved) if moved else 0.0
    unread = _unread(kernel)
    uses = tuple(
        _use(name, cached[name], uncached[name], drawn, name in unread)
        for name in tensors
        if name in cached or name in uncached
    )
    return PlacedLaunch(kernel.sym_name.data, uses, parts, float(times.launches))


def _use(name: str, cached: Moved, uncached: Moved, drawn: float, is_unread: bool) -> BufferUse:
    """`drawn`: the time of the bytes relative to the full bandwidth, which few programs do not reach."""
    return BufferUse(
        name, cached.read * drawn, cached.written * drawn,
        max(cached.read, uncached.read) * drawn, max(cached.written, uncached.written) * drawn,
        cached.scattered or uncached.scattered, is_unread,
    )  # fmt: skip


def _add(found: defaultdict[str, Moved], at: PlanBatch, capacity: float, at_once: float) -> None:
    """Add what a launch moves beyond a cache."""
    traffic = CacheTraffic(at, on_chip_counts=False, resident=at_once)
    missed_by_touch = traffic.missed_by_touch(capacity, MEMORY_SECTOR, users=at_once)
    for (_, _, touch, _), missed in zip(traffic.touches, missed_by_touch, strict=True):
        moved, size = found[touch.place], float(max(missed.flat) if hasattr(missed, "flat") else missed)
        moved.read += 0.0 if touch.writes else size
        moved.written += size if touch.writes else 0.0
        moved.scattered |= touch.scattered


def limits_with(limits: Limits, access: AccessCosts) -> Limits:
    """Return the limits of a device with the calibrated cost of a launch."""
    return replace(limits, launch_seconds=access.launch_seconds)


def tensor_bytes(kernel: KernelOp, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of all tensors of a call, without gaps."""
    found = {}
    for argument, parameter in zip(kernel.body.block.args, kernel.parameters, strict=True):
        if isinstance(argument.type, TensorArgumentType):
            lengths = [sizes[n] if isinstance(n, str) else n for n in argument.type.shape]
            found[parameter.data] = prod(lengths) * bytes_of(argument.type.element)
    return found


def _unread(kernel: KernelOp) -> set[str]:
    """Tensors that are only written."""
    names = dict(zip(kernel.body.block.args, (each.data for each in kernel.parameters), strict=True))
    stored: set[str] = set()
    read: set[str] = set()
    for op in kernel.walk():
        if isinstance(op, AccessOp) and op.base in names:
            only = isinstance(op, WriteOp) and op.atomic is None
            (stored if only else read).add(names[op.base])  # type: ignore[index]
    return stored - read
