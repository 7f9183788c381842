"""Run a kernel's IR in NumPy, as written: slow, plain, checked, and in the caller's own memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vkernels.compiler.arguments import CPU
from vkernels.compiler.protocols import KernelLike
from vkernels.compiler.specialise import kernel_in, written_tensors
from vkernels.ir.errors import ArgumentError

from .aliasing import check_written, same_tensors
from .arrays import adopted, is_torch, parts_of
from .bind_arguments import bind, in_order


def interpret(
    kernel: KernelLike,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    on_print: Callable[[str], object] = print,
    trace: bool = False,
) -> None:
    """Run a kernel on these arguments in NumPy. Results are in its tensors afterwards.

    `on_print` takes each line that `vk.print` shows; `trace` lets Python's debugger stop at the author's lines.
    Raises `ArgumentError` as a call does; `CheckError`, at the author's line, for an index out of range, memory read
    before it was written, a failed assertion.
    """
    from vkernels.ir.interpret import interpret as interpret_module

    values = tuple(map(adopted, in_order(kernel, args, kwargs)))
    arguments = bind(kernel, values)
    if arguments.device != CPU:
        raise ArgumentError(f"{kernel.name}: only the CPU interprets kernels; got tensors on {arguments.device}")
    module = kernel.build(arguments.signature)
    written = written_tensors(kernel_in(module))
    check_written(kernel.name, written, arguments.tensors)
    same_tensors(kernel_in(module), written, arguments.tensors)
    arrays = {
        parameter.name: memory_of(value)
        for parameter, value in zip(kernel.parameters, values, strict=True)
        if parameter.kind == "tensor"
    }
    interpret_module(module, {**arrays, **arguments.scalars}, on_print=on_print, trace=trace)


def memory_of(value: Any) -> np.ndarray[Any, Any]:
    """A tensor or array as a NumPy array in the same memory; bf16 as uint16 bits; f8, and what is read as bytes, as
    uint8; complex numbers as their parts, with a last dimension of 2."""
    if not is_torch(value):
        return parts_of(np.asarray(value))
    import torch

    value = value.detach()
    if value.dtype == torch.bfloat16:
        value = value.view(torch.uint16)
    elif value.dtype.itemsize == 1 and str(value.dtype).startswith("torch.float"):
        value = value.view(torch.uint8)
    array: np.ndarray[Any, Any] = value.numpy()
    return parts_of(array)
