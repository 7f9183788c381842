"""The order of atomic updates of floats where calls are deterministic: one that a plan fixes, or an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vkernels.ir.analysis.accesses import MemoryAccess
from vkernels.ir.analysis.update_order import updates_in_any_order
from vkernels.ir.dialect import FetchOp, KernelOp, TileOp
from vkernels.ir.errors import Error, PlanError, UnsupportedError
from vkernels.ir.limits import Limits
from vkernels.ir.locations import place_of
from vkernels.ir.pin import NO_PIN, Pin
from vkernels.ir.plan import Plan

IN_TURN = 1
"""Private copies with which programs that meet run one after another."""


def refuse_any_order(kernel: KernelOp, on_gpu: bool, pin: Pin | None, plan: Plan | None) -> None:
    """Raise `UnsupportedError`, at the author's line, where no plan fixes the order in which a kernel updates floats,
    and `PlanError` where the author's pin or plan does not."""
    name = kernel.sym_name.data
    found = updates_in_any_order(kernel, on_gpu, has_copies=True)
    if found is not None:
        what = f"{name} is deterministic, and `{found.base.name_hint or 'memory'}` is updated here in any order"
        raise UnsupportedError(f"{what}: {_bits(found)}", place_of(found.op), _ways_out(on_gpu))
    copies = plan.private_copies if plan is not None else None if pin is None else pin.private_copies
    found = updates_in_any_order(kernel, on_gpu, has_copies=False) if copies == 0 else None
    if found is not None:
        raise PlanError(
            f"{name} is deterministic, and its author's plan updates `{found.base.name_hint or 'memory'}` in any order:"
            " give it private_copies, 1 or more",
            place_of(found.op),
        )


def _bits(access: MemoryAccess) -> str:
    if isinstance(access.op, FetchOp):
        return "what each update finds depends on it"
    return "a sum of floats depends on it" if access.atomic == "add" else "the bits of NaN depend on it"


def _ways_out(on_gpu: bool) -> str:
    if on_gpu:
        return (
            "Threads of a GPU update an element in any order. Sum along a whole axis or a range instead, over sorted"
            " indices as `library.segment_sum` does, update integers, or run this kernel on a CPU."
        )
    return "On a CPU updates have an order where one kind of atomic alone accesses the tensor, which has dimensions."


def with_order(
    kernel: KernelOp, sizes: Mapping[str, int], limits: Limits, strides: Mapping[str, Sequence[int]] | None,
    pin: Pin | None,
) -> Pin | None:  # fmt: skip
    """A pin, with the private copies that fix the order of updates where nothing else does: those of the least modelled
    time, of one for all programs and one for each core."""
    author = pin or NO_PIN
    if author.private_copies is not None or updates_in_any_order(kernel, limits.warp > 1, has_copies=False) is None:
        return pin
    has_programs = any(isinstance(op, TileOp) for op in kernel.body.block.ops)
    pins = [replace(author, private_copies=n) for n in (IN_TURN, *([limits.multiprocessors] if has_programs else []))]
    return min(pins, key=lambda each: _seconds(kernel, sizes, limits, strides, each))


def _seconds(
    kernel: KernelOp, sizes: Mapping[str, int], limits: Limits, strides: Mapping[str, Sequence[int]] | None, pin: Pin
) -> float:
    from vkernels.ir.planning.choose_plan import choose_plan

    try:
        return choose_plan(kernel, sizes, limits, strides=strides, pin=pin).seconds
    except Error:  # needs that cannot be read
        return float("inf")
