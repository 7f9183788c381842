"""Calls of kernels as a GPU would run them: planned for its limits, lowered to TTIR, interpreted in NumPy.

So tests of the library's functions, with the references that they have, test its code for GPUs too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from xdsl.ir import Operation

from vkernels import on_launch
from vkernels.compiler.compile_gpu import lower_for
from vkernels.compiler.specialise import kernel_in, specialised, written_tensors
from vkernels.ir.dialect import GatherOp, KernelOp, LoadOp, WriteOp
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.transforms.merge_tensors import with_one_for
from vkernels.language.kernel import Kernel
from vkernels.library import dense
from vkernels.runtime.aliasing import check_written, same_tensors
from vkernels.runtime.bind_arguments import bind, in_order
from vkernels.runtime.interpret import memory_of

NVIDIA = Limits(
    registers=255, register_bytes=4, shared=100 << 10, multiprocessors=8, cache=4 << 20, threads=1024, warp=32
)
AMD = Limits(registers=512, register_bytes=4, shared=64 << 10, multiprocessors=8, cache=4 << 20, threads=1024, warp=64)
SMALL = Limits(registers=32, register_bytes=4, shared=2 << 10, multiprocessors=2, cache=64 << 10, threads=64, warp=32)
"""So few threads and registers that what is longer than a few hundred elements goes in chunks."""


class TooLargeError(Exception):
    """A call that would take the interpreter too long."""


@dataclass
class Gpu:
    """What a GPU of these limits has run: kernels by name, each as often. `seed`: of the order of programs.

    `largest`: elements that a tensor may have.
    """

    limits: Limits
    seed: int
    largest: int = 1 << 62
    ran: Counter[str] = field(default_factory=Counter)

    def run(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """As `Kernel.__call__`; raises what it raises, and `TooLargeError`."""
        values = in_order(kernel, args, kwargs)
        arguments = bind(kernel, values)
        if any(view.size > self.largest for view in arguments.tensors.values()):
            raise TooLargeError(f"{kernel.name} with {dict(arguments.sizes)}")
        module = kernel.build(arguments.signature)
        op = kernel_in(module)
        written = written_tensors(op)
        check_written(kernel.name, written, arguments.tensors)
        same = same_tensors(op, written, arguments.tensors)
        module = with_one_for(module, dict(same))
        op = kernel_in(module)
        strides = {name: view.strides for name, view in arguments.tensors.items()}
        plan = choose_plan(op, arguments.sizes, self.limits, strides=strides, pin=kernel.pin).plan
        lowering = specialised(
            lambda facts: lower_for(module, plan, facts), op, plan, arguments.sizes, arguments.tensors, True
        )
        parameters = zip(kernel.parameters, values, strict=True)
        arrays = {p.name: memory_of(value) for p, value in parameters if p.kind == "tensor"}
        unread = set(written) - _read_tensors(op)
        given = {**arrays, **arguments.scalars}
        interpret_ttir(lowering.lowered, given, arguments.sizes, order=self.seed, write_only=unread)
        self.ran[kernel.name] += 1


@contextmanager
def on_a_gpu(limits: Limits, seed: int, largest: int = 1 << 62) -> Iterator[Gpu]:
    """Kernels called within run as on a GPU of these limits, on tensors and arrays in this machine's memory."""
    gpu = Gpu(limits, seed, largest)

    def call(kernel: Kernel, *args: Any, **kwargs: Any) -> None:
        gpu.run(kernel, args, kwargs)

    on_cpu = patch.object(dense, "is_narrow_on_cpu", lambda array: False)  # what is in this memory is the GPU's
    with on_launch(lambda event: None), on_cpu, patch.object(Kernel, "__call__", call):  # listeners hear of every call
        yield gpu


def _read_tensors(kernel: KernelOp) -> set[str]:
    """Names of parameters that the kernel loads from, or updates atomically."""
    names = dict(zip(kernel.body.block.args, (p.data for p in kernel.parameters), strict=True))
    return {names[op.base] for op in kernel.walk() if _reads(op) and op.base in names}


def _reads(op: Operation) -> bool:
    return isinstance(op, LoadOp | GatherOp) or (isinstance(op, WriteOp) and op.atomic is not None)
