"""16-bit floats: formats of memory, in which nothing is computed."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation

from ..dialect import element_of
from .failures import unsupported


def is_half(element: Attribute) -> bool:
    """Whether an element type is a memory format only: f16 or bf16."""
    return isinstance(element, Float16Type | BFloat16Type)


def refuse_half(operation: Operation) -> None:
    """Raise `UnsupportedError` where f16 or bf16 is computed with instead of converted."""
    for value in (*operation.operands, *operation.results):
        if is_half(element_of(value)):
            raise unsupported(operation, f"{element_of(value)} is a memory format; compute in f32")
