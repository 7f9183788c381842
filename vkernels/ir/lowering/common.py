"""Shared by both lowerings: errors, memory formats, the dispatch to handlers, sizes and space of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialect import BufferOp, DotOp, LaunchOp, MappedOp, MemoryType, ReductionOp, ScaleOp, ScanOp, SizeOp, element_of
from ..errors import UnsupportedError
from ..locations import place_of

_N = TypeVar("_N")

TERMINATORS = ("scf.yield", "scf.condition", "vk.yield", "vk.combined")

Handler = Callable[[Any, Any], None]
"""Lowers one operation, given the function's state."""

_MOVE_OR_CONVERT = ("arith.constant", "arith.select", "arith.bitcast", "arith.extf", "arith.truncf")


def unsupported(operation: Operation, reason: str) -> UnsupportedError:
    """An error that names the operation and, where the author's line is known, shows it."""
    return UnsupportedError(f"{operation.name}: {reason}", place_of(operation))


def is_half(element: Attribute) -> bool:
    """Whether an element type is a memory format of 16 bits: f16 or bf16."""
    return isinstance(element, Float16Type | BFloat16Type)


def is_quarter(element: Attribute) -> bool:
    """Whether an element type is a memory format of 8 bits, one of the two f8."""
    return isinstance(element, Float8E4M3FNType | Float8E5M2Type)


def lower_operation(state: Any, operation: Operation, handlers: Mapping[str, Handler], lacks: str) -> None:
    """Lower one operation by its handler.

    Raises `UnsupportedError` for an operation without one, and where f16, bf16 or f8 is computed with.
    """
    handler = handlers.get(operation.name)
    if handler is None:
        raise unsupported(operation, f"this operation has {lacks}")
    is_arithmetic = operation.dialect_name() in ("arith", "math") and operation.name not in _MOVE_OR_CONVERT
    if is_arithmetic or isinstance(operation, ReductionOp | ScanOp | DotOp | ScaleOp):
        for value in (*operation.operands, *operation.results):
            if is_half(element_of(value)) or is_quarter(element_of(value)):
                raise unsupported(operation, f"{element_of(value)} is a memory format; compute in f32")
    handler(state, operation)


def ignore(state: object, operation: Operation) -> None:
    """Lower an operation to nothing: prints and assertions are for checked kernels."""


def terminator_of(block: Block) -> Operation:
    """The last operation of a verified block."""
    assert block.last_op is not None, "verified"
    return block.last_op


def launches_of(mapped: MappedOp) -> list[LaunchOp]:
    """The launches of a mapped kernel, in order."""
    return [op for op in mapped.body.block.ops if isinstance(op, LaunchOp)]


def size_names(mapped: MappedOp) -> tuple[str, ...]:
    """The sizes that a mapped kernel reads, in order."""
    return tuple(dict.fromkeys(op.size.data for op in mapped.body.block.ops if isinstance(op, SizeOp)))


def swap_of_a_call(launch: LaunchOp) -> list[BufferOp]:
    """A launch's swap space whose size depends on the call's sizes."""
    return [op for op in launch.body.block.ops if isinstance(op, BufferOp) and op.sizes]


def buffer_sizes(operation: BufferOp, number: Callable[[SSAValue], _N]) -> list[_N | int]:
    """A buffer's dimensions, in elements; `number` gives that of an operand."""
    given = iter(operation.sizes)
    shape = [d for d in operation.result.type.shape if isinstance(d, int)]
    return [number(next(given)) if d == DYNAMIC_INDEX else d for d in shape]


def constant_elements(type_: MemoryType, operation: Operation) -> int:
    """Elements of a scratchpad or of swap space, all of whose dimensions are numbers."""
    sizes = [d for d in type_.shape if isinstance(d, int) and d >= 0]
    if len(sizes) != len(type_.shape):
        raise unsupported(operation, f"{type_} needs constant dimensions inside a launch")
    return prod(sizes)


def contiguous_strides(sizes: Sequence[_N | int], product: Callable[[_N | int, _N | int], _N | int]) -> list[_N | int]:
    """The strides of memory without gaps, last dimension fastest."""
    strides: list[_N | int] = [1]
    for size in reversed(sizes):
        strides.insert(0, product(strides[0], size))
    return strides[1:]


def is_tile(value: SSAValue) -> bool:
    """Whether a value is a tile with axes, not a scalar or memory."""
    return isinstance(value.type, TensorType)


@dataclass
class ProgramSpace:
    """Bytes that belong to a program, allocated in order; setting `top` back frees the last ones."""

    alignment: int
    top: int = 0
    most: int = 0

    def take(self, size: int) -> int:
        """The offset of `size` new bytes."""
        offset = self.top
        self.top += -(-size // self.alignment) * self.alignment
        self.most = max(self.most, self.top)
        return offset
