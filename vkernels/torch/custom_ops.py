"""Kernels of one's own as torch's operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.library import Library

from vkernels.language import Kernel

from .custom_gradients import AuthorsGradient
from .define_operation import OperationDefinition
from .registering import Operation, define_in

_MADE: dict[str, Library] = {}
"""What holds each operation; one that is made again takes the place of the one before."""


def torch_op(
    kernel: Kernel,
    name: str | None = None,
    *,
    fixed: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Callable[[Mapping[str, int]], int]] | None = None,
    dtypes: Mapping[str, torch.dtype | str] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Operation:
    """Register a kernel as an operation of torch's, and return that: under `torch.compile`, with gradients.

    Its arguments are the kernel's, in order, but for tensors that the kernel writes and does not read: those it
    allocates, contiguous, and returns. Tensors that the kernel reads and writes, atomically too, stay arguments, and
    are changed in place.

    `name`: `"namespace::name"`; `vk::` and the kernel's name unless given. Given again, it is the new kernel's.
    `fixed`: values of constants, or of scalars, that are no arguments; constants without a default of a type must be.
    `sizes`: for sizes that only results have, how they follow from the others by name: `{"Y": lambda n: n["H"] - 2}`.
    `dtypes`: of results, a dtype or an argument's name; else that of the first argument whose dtype the result can
    have. `backward`: takes the gradient of each result, and what its further parameters name among arguments and
    results, which are kept for it: `def backward(grad, out, eps)`; it returns the gradient of each tensor argument in
    order, None for one that has none. It is made of torch's operations, such as this function returns. Without it, or
    of kernels that change arguments, differentiating is refused.
    Raises `OptionError` for what does not go together, and what building the kernel raises.
    """
    made = OperationDefinition(
        kernel, name or f"vk::{kernel.name}", dict(fixed or {}), dict(sizes or {}), dict(dtypes or {})
    )
    namespace, _ = made.check()
    gradient = None if backward is None else AuthorsGradient(made, backward)
    before = _MADE.pop(made.name, None)
    if before is not None:
        before._destroy()
    library = Library(namespace, "FRAGMENT")
    keep, back = (None, None) if gradient is None else (gradient.keep, gradient.backward)
    operation = define_in(library, namespace, made.schema, made.run, made.fake, keep, back)
    _MADE[made.name] = library
    return operation
