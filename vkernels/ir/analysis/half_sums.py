"""Which tensors of f16 and bf16 a kernel adds to by atomics: GPUs add two elements that share a word."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation

from ..dialect import TensorArgumentType, WriteOp


def is_half_sum(op: Operation) -> bool:
    """Whether an operation adds to elements of f16 or bf16 in memory by atomics."""
    if not isinstance(op, WriteOp) or op.atomic is None or op.atomic.data != "add":
        return False
    type_ = op.base.type
    return isinstance(type_, TensorArgumentType) and isinstance(type_.element, Float16Type | BFloat16Type)


def sizes_of_half_sums(kernel: Operation) -> tuple[str, ...]:
    """Names of sizes of tensors that a kernel adds to so: whether an element's word is the tensor's depends on them."""
    found = (op.base.type for op in kernel.walk() if isinstance(op, WriteOp) and is_half_sum(op))
    shapes = (type_.shape for type_ in found if isinstance(type_, TensorArgumentType))
    return tuple(dict.fromkeys(name for shape in shapes for name in shape if isinstance(name, str)))
