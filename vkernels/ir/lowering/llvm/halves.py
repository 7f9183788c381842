"""Floats of 16 and 8 bits: formats of memory, in which nothing is computed."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type
from xdsl.ir import Attribute, Operation

from ...dialect import element_of
from .failures import unsupported


def is_half(element: Attribute) -> bool:
    """Whether an element type is a memory format of 16 bits: f16 or bf16."""
    return isinstance(element, Float16Type | BFloat16Type)


def is_quarter(element: Attribute) -> bool:
    """Whether an element type is a memory format of 8 bits, one of the two f8."""
    return isinstance(element, Float8E4M3FNType | Float8E5M2Type)


def refuse_half(operation: Operation) -> None:
    """Raise `UnsupportedError` where f16, bf16 or f8 is computed with instead of converted."""
    for value in (*operation.operands, *operation.results):
        if is_half(element_of(value)) or is_quarter(element_of(value)):
            raise unsupported(operation, f"{element_of(value)} is a memory format; compute in f32")
