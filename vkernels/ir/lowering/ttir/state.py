"""The state of one function while its body is lowered: values, memory, scratchpad and swap space in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vkernels.ir.dialect import MappedOp, MemoryType, arith
from vkernels.ir.errors import PlanError
from vkernels.ir.launch_arguments import SWAP_ALIGNMENT

from ..common import TERMINATORS, Handler, ProgramSpace, is_tile, lower_operation
from .builder import Number, TtirBuilder
from .tiles import lowered_type

I32_RANGE = 1 << 31
"""The least number that an i32 cannot hold."""


@dataclass(frozen=True)
class PointerMemory:
    """Memory that loads and stores address.

    `base`: a pointer to its first element, or the byte offset, i32, of a scratchpad. `element`: as held in memory.
    `strides`: in elements. `sizes`: of each dimension; None where it is not known, which only matters if it is
    guarded. `is_far`: an element may lie 2³¹ elements or more from the first. `is_aligned`: the base is a multiple of
    16 bytes, and strides other than 0 and 1 of 16 elements.
    """

    base: SSAValue
    element: Attribute
    strides: tuple[Number, ...]
    sizes: tuple[Number | None, ...]
    is_scratchpad: bool = False
    is_far: bool = False
    is_aligned: bool = False


SCRATCHPAD_ALIGNMENT = 16
"""Bytes that each memory in the scratchpad starts at a multiple of."""
SLOT_BYTES = 16
"""The slot: bytes behind the scratchpad where inactive elements load and store."""


@dataclass
class TtirState:
    """Lowering of one function."""

    mapped: MappedOp
    build: TtirBuilder
    handlers: Mapping[str, Handler]
    values: dict[SSAValue, SSAValue | PointerMemory] = field(default_factory=dict)
    scratchpad: ProgramSpace = field(default_factory=lambda: ProgramSpace(SCRATCHPAD_ALIGNMENT))
    swap: ProgramSpace = field(default_factory=lambda: ProgramSpace(SWAP_ALIGNMENT))
    swap_offsets: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """The start of swap space whose size depends on the call, in bytes from `swap_base`."""
    swap_base: SSAValue | None = None
    operands: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Of tiles that dots take: the same elements, with one dimension for each side of the dot."""
    adds_float8: bool = False
    """Sums of f8 products in fewer bits are added to those in f32 by operations, see `_dot` in `dots.py`."""
    slot: arith.ConstantOp = field(default_factory=lambda: arith.ConstantOp(IntegerAttr(0, i32)))
    """The offset of the slot: known when all of the scratchpad has been handed out."""

    def value(self, value: SSAValue) -> SSAValue:
        """A tile or scalar."""
        result = self.values[value]
        assert isinstance(result, SSAValue), "memory is no value"
        return result

    def number(self, value: SSAValue) -> Number:
        """A scalar integer, or the number that it is known to be."""
        return self.build.known(self.value(value))

    def memory(self, value: SSAValue) -> PointerMemory:
        result = self.values[value]
        assert isinstance(result, PointerMemory), "a value is no memory"
        return result

    def define(self, value: SSAValue, lowered: SSAValue) -> None:
        """Note the lowered value of a tile or scalar."""
        self.values[value] = lowered
        if value.name_hint is not None and lowered.name_hint is None:
            lowered.name_hint = value.name_hint

    def lower(self, operation: Operation) -> None:
        """Lower one operation. Raises `PlanError` for a result of sizes that Triton cannot have."""
        self.build.location = operation.location
        for result in filter(is_tile, operation.results):
            lowered_type(result.type, operation)
        lower_operation(self, operation, self.handlers, "no form on a GPU")

    def walk(self, block: Block) -> None:
        """Lower every operation of a block but its terminator."""
        for operation in block.ops:
            if operation.name not in TERMINATORS:
                self.lower(operation)
        if block.last_op is not None:
            self.build.location = block.last_op.location

    # Control flow carries memory as its base

    def carried(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The lowered values that control flow carries."""
        lowered = [self.values[value] for value in values]
        return [value.base if isinstance(value, PointerMemory) else value for value in lowered]

    def bind(self, values: Sequence[SSAValue], names: Sequence[SSAValue], like: Sequence[SSAValue]) -> None:
        """Give carried values their names; memory is laid out as in the value that it comes from."""
        for value, name, source in zip(values, names, like, strict=True):
            if isinstance(value.type, MemoryType):
                self.values[value] = replace(self.memory(source), base=name)
            else:
                self.define(value, name)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratchpad that a program needs, the slot included. Raises `PlanError` for 2 GiB or more."""
        if not self.scratchpad.top:
            return 0
        total = self.scratchpad.top + SLOT_BYTES
        if total >= I32_RANGE:
            raise PlanError(f"a program needs {total} bytes of scratchpad, more than any GPU has")
        return total
