"""One array for two parameters of a random kernel: refused, or the same as with memory of its own for each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import Same
from vkernels.compiler.specialise import kernel_in, written_tensors
from vkernels.ir.dialect import KernelOp, TensorArgumentType
from vkernels.ir.errors import ArgumentError
from vkernels.ir.transforms.merge_tensors import with_one_for
from vkernels.runtime.aliasing import same_tensors

from ..planned_cases.arrays import views_of
from .values import Kernel

Arguments = dict[str, Any]


def alike(kernel: KernelOp) -> list[tuple[str, str]]:
    """Pairs of tensors of one type, the first of them written."""
    arguments = kernel.body.block.args
    types = {p.data: a.type for p, a in zip(kernel.parameters, arguments, strict=True)}
    tensors = [name for name, type_ in types.items() if isinstance(type_, TensorArgumentType)]
    written = written_tensors(kernel)
    pairs = [pair if pair[0] in written else pair[::-1] for pair in combinations(tensors, 2)]
    return [(one, other) for one, other in pairs if one in written and types[one] == types[other]]


def aliased(kernel: Kernel, module: ModuleOp, choose: random.Random) -> tuple[ModuleOp, Arguments, Same] | None:
    """The module and arguments of a call in which two parameters have one array; None where there are no two alike, or
    the two that were drawn are refused."""
    pairs = alike(kernel_in(module))
    if not pairs:
        return None
    one, other = choose.choice(pairs)
    arguments = {**kernel.arguments, one: kernel.arguments[other]}
    same = verdict(kernel_in(module), arguments)
    return None if same is None else (with_one_for(module, dict(same)), arguments, same)


def verdict(kernel: KernelOp, arguments: Arguments) -> Same | None:
    """Which tensors are the same, as every way of running a kernel finds out; None where the call is refused."""
    try:
        return same_tensors(kernel, written_tensors(kernel), views_of(arguments))
    except ArgumentError:
        return None


def apart(arguments: Arguments, same: Same) -> Arguments:
    """The same numbers, in memory of its own for each parameter."""
    made = dict(arguments)
    for name, _ in same:
        made[name] = np.array(made[name])
    return made


def both_updated(kernel: KernelOp, same: Same) -> bool:
    """Whether two results are one: then memory of its own for each gives something else."""
    written: Sequence[str] = written_tensors(kernel)
    return any(name in written for name, _ in same)
