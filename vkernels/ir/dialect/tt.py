"""The operations of Triton's `tt` dialect that `lower_to_ttir` emits, declared to be built and interpreted.

Only what Triton 3.6 and later spell alike is here. Tiles are tensors without an encoding, of sizes that are powers of
two; all their elements are processed by one program's threads, in a layout that Triton chooses. Printed in MLIR's
generic form, modules of these with arith, math and scf are what `triton.compile` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

MOST_ELEMENTS = 1 << 20
"""Elements that a Triton tensor may have."""


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """A pointer to elements in global memory: `!tt.ptr<f32>`."""

    name = "tt.ptr"

    pointee: Attribute

    def __init__(self, pointee: Attribute):
        super().__init__(pointee)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)


def element(type_: Attribute) -> Attribute:
    """A tensor's element type; any other type itself."""
    return type_.element_type if isinstance(type_, TensorType) else type_


def shape(type_: Attribute) -> tuple[int, ...]:
    """A tensor's sizes; none for a scalar."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def tensor(element_: Attribute, sizes: Sequence[int]) -> Attribute:
    """A tensor type of these sizes; the element itself where there are none."""
    return TensorType(element_, list(sizes)) if sizes else element_


def verify_tensor(type_: Attribute) -> None:
    """Raise `VerifyException` for a tensor that Triton cannot have."""
    total = 1
    for size in shape(type_):
        if size < 1 or size & (size - 1):
            raise VerifyException(f"{type_} has a size of {size}, expected a power of two")
        total *= size
    if total > MOST_ELEMENTS:
        raise VerifyException(f"{type_} has {total} elements, more than {MOST_ELEMENTS}")


class _TtOp(IRDLOperation):
    def verify_(self) -> None:
        for type_ in (*self.operand_types, *self.result_types):
            verify_tensor(type_)


@irdl_op_definition
class FuncOp(_TtOp):
    """A kernel. `arg_attrs` may hold `tt.divisibility`: a number that divides an address in bytes, or an integer."""

    name = "tt.func"

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove())

    def __init__(self, name: str, body: Region, arg_attrs: Sequence[Attribute]):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(body.block.arg_types, []),
                "sym_visibility": StringAttr("public"),
                "arg_attrs": ArrayAttr(arg_attrs),
            },
            regions=[body],
        )


@irdl_op_definition
class ReturnOp(_TtOp):
    """End a kernel."""

    name = "tt.return"
    srcs = var_operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self) -> None:
        super().__init__(operands=[[]])


@irdl_op_definition
class ProgramIdOp(_TtOp):
    """The number of this program along grid dimension `axis`, 0, 1 or 2: i32."""

    name = "tt.get_program_id"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self, axis: int = 0):
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])


@irdl_op_definition
class NumProgramsOp(_TtOp):
    """The programs along grid dimension `axis`: i32."""

    name = "tt.get_num_programs"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self, axis: int = 0):
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])


@irdl_op_definition
class MakeRangeOp(_TtOp):
    """The numbers from `start` up to `end`, i32, one dimension."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, count: int):
        super().__init__(
            properties={"start": IntegerAttr(0, i32), "end": IntegerAttr(count, i32)},
            result_types=[TensorType(i32, [count])],
        )


@irdl_op_definition
class SplatOp(_TtOp):
    """A scalar in every element."""

    name = "tt.splat"
    src = operand_def()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, sizes: Sequence[int]):
        super().__init__(operands=[value], result_types=[TensorType(value.type, list(sizes))])


@irdl_op_definition
class ExpandDimsOp(_TtOp):
    """A new dimension of size 1 before dimension `axis`."""

    name = "tt.expand_dims"
    src = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, axis: int):
        sizes = [*shape(value.type)[:axis], 1, *shape(value.type)[axis:]]
        super().__init__(
            operands=[value],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[TensorType(element(value.type), sizes)],
        )


@irdl_op_definition
class BroadcastOp(_TtOp):
    """Dimensions of size 1 repeated."""

    name = "tt.broadcast"
    src = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, sizes: Sequence[int]):
        super().__init__(operands=[value], result_types=[TensorType(element(value.type), list(sizes))])


@irdl_op_definition
class TransOp(_TtOp):
    """Dimensions in another order: dimension d of the result is dimension `order[d]` of the source."""

    name = "tt.trans"
    src = operand_def(TensorType)
    order = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, order: Sequence[int]):
        sizes = [shape(value.type)[d] for d in order]
        super().__init__(
            operands=[value],
            properties={"order": DenseArrayBase.from_list(i32, list(order))},
            result_types=[TensorType(element(value.type), sizes)],
        )


@irdl_op_definition
class ReshapeOp(_TtOp):
    """The same elements, in row-major order, under other sizes."""

    name = "tt.reshape"
    src = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, sizes: Sequence[int]):
        super().__init__(operands=[value], result_types=[TensorType(element(value.type), list(sizes))])


@irdl_op_definition
class AddPtrOp(_TtOp):
    """A pointer, or a tensor of them, moved by so many elements, i32 or i64."""

    name = "tt.addptr"
    ptr = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, pointer: SSAValue, offset: SSAValue):
        super().__init__(operands=[pointer, offset], result_types=[pointer.type])


@irdl_op_definition
class BitcastOp(_TtOp):
    """The same bits as another type of the same width; a pointer to other elements."""

    name = "tt.bitcast"
    src = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result: Attribute):
        super().__init__(operands=[value], result_types=[result])


@irdl_op_definition
class LoadOp(_TtOp):
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
class StoreOp(_TtOp):
    """Elements to global memory, where the mask is not false."""

    name = "tt.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, pointer: SSAValue, value: SSAValue, mask: SSAValue | None = None):
        super().__init__(operands=[pointer, value, [] if mask is None else [mask]])


class Atomic(IntEnum):
    """What an atomic operation does; Triton's numbers."""

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


_RELAXED, _GPU = 1, 1


@irdl_op_definition
class AtomicOp(_TtOp):
    """Combine elements in global memory with values, where the mask is not false; the result is what was there before.

    Relaxed, for all programs of the device.
    """

    name = "tt.atomic_rmw"
    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    atomic_rmw_op = prop_def(IntegerAttr)
    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)
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
class DotOp(_TtOp):
    """a @ b + c, of two dimensions, or of three with a batch first. `inputPrecision`: 0 tf32, 2 ieee, for f32."""

    name = "tt.dot"
    PRECISIONS: ClassVar[dict[str, int]] = {"tf32": 0, "ieee": 2}

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    input_precision = prop_def(IntegerAttr, prop_name="inputPrecision")
    max_num_imprecise_acc = prop_def(IntegerAttr, prop_name="maxNumImpreciseAcc")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, precision: str):
        super().__init__(
            operands=[a, b, c],
            properties={
                "inputPrecision": IntegerAttr(self.PRECISIONS[precision], i32),
                "maxNumImpreciseAcc": IntegerAttr(0, i32),
            },
            result_types=[c.type],
        )


@irdl_op_definition
class ReduceOp(_TtOp):
    """Combine all elements along dimension `axis`, in an order that Triton chooses; the body combines two scalars."""

    name = "tt.reduce"
    srcs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    results_ = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, axis: int, body: Region):
        sizes = [size for number, size in enumerate(shape(value.type)) if number != axis]
        super().__init__(
            operands=[[value]],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[[tensor(element(value.type), sizes)]],
            regions=[body],
        )


@irdl_op_definition
class ReduceReturnOp(_TtOp):
    """End the body of a `tt.reduce`."""

    name = "tt.reduce.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[[value]])


@irdl_op_definition
class ScanOp(_TtOp):
    """Inclusive scan along dimension `axis`; the body combines two scalars."""

    name = "tt.scan"
    srcs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(BoolAttr)
    results_ = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, axis: int, body: Region):
        super().__init__(
            operands=[[value]],
            properties={"axis": IntegerAttr(axis, i32), "reverse": BoolAttr.from_bool(False)},
            result_types=[[value.type]],
            regions=[body],
        )


@irdl_op_definition
class ScanReturnOp(_TtOp):
    """End the body of a `tt.scan`."""

    name = "tt.scan.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[[value]])


@irdl_op_definition
class PreciseSqrtOp(_TtOp):
    """The square root of f32, rounded once."""

    name = "tt.precise_sqrt"
    x = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[value.type])


@irdl_op_definition
class PreciseDivOp(_TtOp):
    """A quotient of f32, rounded once."""

    name = "tt.precise_divf"
    x = operand_def()
    y = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue):
        super().__init__(operands=[a, b], result_types=[a.type])


@irdl_op_definition
class ScratchpadOp(_TtOp):
    """An access to the program's scratchpad, spelled as inline assembly that Triton carries along unread.

    `vk.load.i32`: of an i32 byte offset, the element there; `vk.store.i32`: of a byte offset and a value, no result of
    meaning. Elements are i8, i16, i32 or i64; those below 32 bits travel as i32, loads of them extended with zeros.
    Whoever compiles the text puts real loads and stores of shared memory in their place.
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
    def load(cls, offset: SSAValue, bits: int, result: Attribute) -> ScratchpadOp:
        """Elements of so many bits at byte offsets; `result` holds i32, or i64 for 64 bits."""
        return cls(f"vk.load.i{bits}", [offset], result)

    @classmethod
    def store(cls, offset: SSAValue, value: SSAValue, bits: int) -> ScratchpadOp:
        """Put the low bits of a value, i32 or i64, at byte offsets."""
        return cls(f"vk.store.i{bits}", [offset, value], tensor(i32, shape(offset.type)))

    @property
    def is_store(self) -> bool:
        return self.asm_string.data.startswith("vk.store.")

    @property
    def bits(self) -> int:
        return int(self.asm_string.data.rsplit(".i", 1)[1])


@irdl_op_definition
class BarrierOp(_TtOp):
    """All of a program's threads have done what comes before it, and see what was written, before any goes on."""

    name = "gpu.barrier"

    def __init__(self) -> None:
        super().__init__()


_OPERATIONS: list[type[Operation]] = [
    FuncOp, ReturnOp, ProgramIdOp, NumProgramsOp, MakeRangeOp, SplatOp, ExpandDimsOp, BroadcastOp, TransOp, ReshapeOp,
    AddPtrOp, BitcastOp, LoadOp, StoreOp, AtomicOp, DotOp, ReduceOp, ReduceReturnOp, ScanOp, ScanReturnOp,
    PreciseSqrtOp, PreciseDivOp, ScratchpadOp,
]  # fmt: skip
TT = Dialect("tt", _OPERATIONS, [PointerType])
GPU = Dialect("gpu", [BarrierOp], [])
