"""Pointers, and accesses to global memory and to scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from .types import ElementwiseOp, PointerType, PureTtOp, TtOp, element, shape, tensor


@irdl_op_definition
class AddPtrOp(ElementwiseOp):
    """A pointer, or a tensor of them, moved by a number of elements, i32 or i64."""

    name = "tt.addptr"
    ptr = operand_def()
    offset = operand_def()


@irdl_op_definition
class BitcastOp(PureTtOp):
    """The same bits as another type of the same width; a pointer to other elements."""

    name = "tt.bitcast"
    src = operand_def()

    def __init__(self, value: SSAValue, result: Attribute):
        super().__init__(operands=[value], result_types=[result])


@irdl_op_definition
class PtrToIntOp(PureTtOp):
    """The address that a pointer holds, i64."""

    name = "tt.ptr_to_int"
    src = operand_def()

    def __init__(self, pointer: SSAValue):
        super().__init__(operands=[pointer], result_types=[tensor(i64, shape(pointer.type))])


@irdl_op_definition
class LoadOp(TtOp):
    """Elements from global memory; `other` where the mask is false."""

    name = "tt.load"
    ptr = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, pointer: SSAValue, mask: SSAValue | None = None, other: SSAValue | None = None):
        pointed = element(pointer.type)
        if not isinstance(pointed, PointerType):
            raise VerifyException(f"a load from {pointer.type}, expected pointers")
        super().__init__(
            operands=[pointer, [] if mask is None else [mask], [] if other is None else [other]],
            result_types=[tensor(pointed.pointee, shape(pointer.type))],
        )


@irdl_op_definition
class StoreOp(TtOp):
    """Elements to global memory, where the mask is not false."""

    name = "tt.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, pointer: SSAValue, value: SSAValue, mask: SSAValue | None = None):
        super().__init__(operands=[pointer, value, [] if mask is None else [mask]])


class Atomic(IntEnum):
    """How an atomic operation combines; Triton's numbers."""

    AND = 1
    OR = 2
    XOR = 3
    ADD = 4
    FADD = 5
    MAX = 6
    MIN = 7
    UMAX = 8
    UMIN = 9
    XCHG = 10


_RELAXED, _ACQUIRE, _RELEASE, _ACQUIRE_RELEASE = 1, 2, 3, 4
_GPU, _PROGRAM = 1, 2


class _OrderingOp(TtOp):
    """An atomic update, which may order other accesses. `sem`, `scope`: Triton's numbers."""

    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)

    @property
    def acquires(self) -> bool:
        """Whether what follows comes after what those did who released what it sees."""
        return self.sem.value.data in (_ACQUIRE, _ACQUIRE_RELEASE)

    @property
    def releases(self) -> bool:
        """Whether what was before comes before what those do who acquire it."""
        return self.sem.value.data in (_RELEASE, _ACQUIRE_RELEASE)

    @property
    def is_between_programs(self) -> bool:
        return self.scope.value.data != _PROGRAM


@irdl_op_definition
class AtomicOp(_OrderingOp):
    """Combine elements in global memory with values, where the mask is not false; the result is what was there before.

    Relaxed, for all programs of the device.
    """

    name = "tt.atomic_rmw"
    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    atomic_rmw_op = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, kind: Atomic, pointer: SSAValue, value: SSAValue, mask: SSAValue | None = None):
        super().__init__(
            operands=[pointer, value, [] if mask is None else [mask]],
            properties={
                "atomic_rmw_op": IntegerAttr(int(kind), i32),
                "sem": IntegerAttr(_RELAXED, i32),
                "scope": IntegerAttr(_GPU, i32),
            },
            result_types=[value.type],
        )

    @property
    def kind(self) -> Atomic:
        return Atomic(self.atomic_rmw_op.value.data)


@irdl_op_definition
class AtomicCasOp(_OrderingOp):
    """Store values in global memory where elements have the bits of `cmp`; the result is what was there before."""

    name = "tt.atomic_cas"
    ptr = operand_def()
    cmp = operand_def()
    val = operand_def()
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, pointer: SSAValue, expected: SSAValue, value: SSAValue):
        super().__init__(
            operands=[pointer, expected, value],
            properties={"sem": IntegerAttr(_ACQUIRE_RELEASE, i32), "scope": IntegerAttr(_GPU, i32)},
            result_types=[value.type],
        )


@irdl_op_definition
class ScratchpadOp(TtOp):
    """An access to the program's scratchpad, written as inline assembly that Triton does not read.

    `vk.load.i32` takes an i32 byte offset and gives the element there; `vk.store.i32` takes a byte offset and a value,
    and its result has no meaning. Elements are i8, i16, i32 or i64; those below 32 bits travel as i32, loads of them
    extended with zeros. A number behind the bits is the alignment in bytes, where it is known to be more than the
    element's: `vk.load.i32.16`. The compiler replaces the text with loads and stores of shared memory.
    """

    name = "tt.elementwise_inline_asm"
    args_ = var_operand_def()
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    packed_element = prop_def(IntegerAttr)
    results_ = var_result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, access: str, operands: Sequence[SSAValue], result: Attribute):
        letters = ["l" if str(element(type_)) == "i64" else "r" for type_ in (result, *(o.type for o in operands))]
        super().__init__(
            operands=[operands],
            properties={
                "asm_string": StringAttr(access),
                "constraints": StringAttr(",".join(["=" + letters[0], *letters[1:]])),
                "pure": BoolAttr.from_bool(False),
                "packed_element": IntegerAttr(1, i32),
            },
            result_types=[[result]],
        )

    @classmethod
    def load(cls, offset: SSAValue, bits: int, result: Attribute, alignment: int = 1) -> ScratchpadOp:
        """Load elements of `bits` bits at byte offsets; `result` holds i32, or i64 for 64 bits."""
        return cls(f"vk.load.{_kind(bits, alignment)}", [offset], result)

    @classmethod
    def store(cls, offset: SSAValue, value: SSAValue, bits: int, alignment: int = 1) -> ScratchpadOp:
        """Store the low `bits` bits of a value, i32 or i64, at byte offsets."""
        return cls(f"vk.store.{_kind(bits, alignment)}", [offset, value], tensor(i32, shape(offset.type)))

    @property
    def bits(self) -> int:
        return int(self.asm_string.data.rsplit(".i", 1)[1].split(".")[0])


def _kind(bits: int, alignment: int) -> str:
    """Elements of an access: their bits, and the alignment where it is more than theirs."""
    return f"i{bits}.{alignment}" if 8 * alignment > bits else f"i{bits}"
