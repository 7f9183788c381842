"""Record what the host computes of a call's sizes before launches on a GPU; see `host_sizes`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from vkernels.ir.dialect import BufferOp, SizeOp, arith
from vkernels.ir.lowering.common import buffer_sizes, swap_of_a_call
from vkernels.ir.lowering.ttir.lowered import HostArithmetic

from .manifest import GpuHost, HostBytes, HostStep


def recorded_host(host: HostArithmetic) -> GpuHost:
    """The arithmetic of a lowered kernel, as a manifest has it."""
    steps: list[HostStep] = []
    numbers: dict[SSAValue, int] = {}

    def add(step: HostStep) -> int:
        steps.append(step)
        return len(steps) - 1

    for op in host.operations:
        if isinstance(op, SizeOp):
            known = host.known.get(op.size.data)
            step = HostStep("size", op.size.data) if known is None else HostStep("value", value=known)
        elif isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            step = HostStep("value", value=op.value.value.data)
        else:
            does: Any = op.name.removeprefix("arith.")
            step = HostStep(does, of=tuple(numbers[operand] for operand in op.operands))
        numbers[op.results[0]] = add(step)

    def size(op: BufferOp) -> HostBytes:
        dimensions = buffer_sizes(op, lambda value: (numbers[value],))
        given = (each[0] if isinstance(each, tuple) else add(HostStep("value", value=each)) for each in dimensions)
        return HostBytes(host.element_bytes(op), tuple(given))

    buffers = tuple(map(size, host.buffers))
    swap = tuple(tuple(map(size, swap_of_a_call(launch))) for launch in host.launches)
    programs = tuple(tuple(numbers[count] for count in launch.grid) for launch in host.launches)
    return GpuHost(tuple(steps), buffers, programs, swap)
