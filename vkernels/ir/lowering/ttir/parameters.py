"""The parameters of a launch's function, and what facts say of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DictionaryAttr,
    Float64Type,
    IntegerAttr,
    IntegerType,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from vkernels.ir.dialect import BufferOp, MappedOp, MemoryType, SizeOp, TensorArgumentType, tt
from vkernels.ir.facts import UNKNOWN, Facts

from ..llvm.failures import unsupported
from .builder import Number
from .lowered import LaunchParameter, ParameterKind
from .state import I32_RANGE, PointerMemory, TtirState
from .tiles import memory_element

ALIGNMENT = 16
"""Bytes: what the address of aligned memory is a multiple of; elements: what an aligned tensor's strides are."""

_TYPES: dict[str, Attribute] = {"i32": i32, "i64": i64, "f64": f64, "i1": i1}


@dataclass
class FunctionParameter:
    """A parameter, its argument in the function, and a number that is known to divide it (1: nothing known)."""

    parameter: LaunchParameter
    argument: BlockArgument
    divisor: int


class FunctionSignature:
    """Every parameter that a function of a mapped kernel may have; `used` drops those that it does not need."""

    def __init__(self, mapped: MappedOp, entry: Block):
        self.mapped, self.entry = mapped, entry
        self.facts = Facts.from_attribute(mapped.facts)
        self.declared: list[FunctionParameter] = []
        self.sizes: dict[str, Number] = {}

    def declare(self, state: TtirState) -> None:
        """Declare all and make tensors, scalars and sizes known to the function."""
        names = [p.data for p in self.mapped.parameters]
        tensors = []
        for argument, name in zip(self.mapped.body.block.args, names, strict=True):
            if isinstance(argument.type, TensorArgumentType):
                tensors.append((argument, argument.type, name, *self._tensor(argument.type, name)))
            else:
                state.define(argument, self._scalar(argument, name))
        for name in _size_names(self.mapped):
            self._size(name)
        self.sizes |= self.facts.sizes
        for argument, type_, name, pointer, strides in tensors:
            sizes = tuple(self.sizes.get(d) if isinstance(d, str) else d for d in type_.shape)
            element = memory_element(type_.element, self.mapped)
            state.values[argument] = PointerMemory(pointer, element, strides, sizes, is_far=name in self.facts.large)

    def _add(self, parameter: LaunchParameter, type_: Attribute, divisor: int = 1, hint: str = "") -> BlockArgument:
        argument = self.entry.insert_arg(type_, len(self.entry.args))
        argument.name_hint = hint if hint.isidentifier() else None
        self.declared.append(FunctionParameter(parameter, argument, divisor))
        return argument

    def _tensor(self, type_: TensorArgumentType, name: str) -> tuple[SSAValue, tuple[Number, ...]]:
        divisor = ALIGNMENT if name in self.facts.aligned else 1
        pointer = tt.PointerType(memory_element(type_.element, self.mapped))
        base = self._add(LaunchParameter(ParameterKind.POINTER, name), pointer, divisor, name)
        known = self.facts.strides.get(name, (UNKNOWN,) * len(type_.shape))
        spelled = "i64" if name in self.facts.large else "i32"
        strides: list[Number] = []
        for number, stride in enumerate(known):
            if stride != UNKNOWN:
                strides.append(stride)
                continue
            parameter = LaunchParameter(ParameterKind.STRIDE, name, number, spelled)
            strides.append(self._add(parameter, _TYPES[spelled], divisor, f"{name}_stride_{number}"))
        return base, tuple(strides)

    def _scalar(self, argument: BlockArgument, name: str) -> SSAValue:
        if not isinstance(argument.type, Float64Type) and argument.type not in (IntegerType(64), IntegerType(1)):
            raise unsupported(self.mapped, f"a parameter of type {argument.type}")
        return self._add(LaunchParameter(ParameterKind.SCALAR, name, type=str(argument.type)), argument.type, hint=name)

    def _size(self, name: str) -> None:
        divisor = self.facts.multiples.get(name, 1)
        self.sizes[name] = self._add(LaunchParameter(ParameterKind.SIZE, name, type="i64"), i64, divisor, name)

    def buffer(self, state: TtirState, op: BufferOp, number: int) -> None:
        """A top-level buffer: contiguous, its strides products of its sizes."""
        element = memory_element(op.result.type.element, op)
        hint = op.label.data
        base = self._add(LaunchParameter(ParameterKind.BUFFER, number=number), tt.PointerType(element), ALIGNMENT, hint)
        state.values[op.result] = contiguous(state, op.result.type, op, base, buffer_sizes(state, op))

    def swap(self) -> SSAValue:
        """Where the swap space of all resident programs begins."""
        return self._add(LaunchParameter(ParameterKind.SWAP), tt.PointerType(i8), ALIGNMENT, "swap")

    def programs(self) -> SSAValue:
        """How many programs the launch has."""
        return self._add(LaunchParameter(ParameterKind.PROGRAMS, type="i32"), i32, hint="programs")

    def used(self) -> tuple[tuple[LaunchParameter, ...], list[DictionaryAttr]]:
        """The parameters that have uses, and the attributes of their arguments; the others' arguments are erased."""
        kept = [declared for declared in self.declared if declared.argument.uses.get_length()]
        for declared in self.declared:
            if declared not in kept:
                self.entry.erase_arg(declared.argument)
        return tuple(declared.parameter for declared in kept), [_attributes(declared.divisor) for declared in kept]


def buffer_sizes(state: TtirState, op: BufferOp) -> list[Number]:
    """A buffer's dimensions, in elements."""
    given = iter(op.sizes)
    sizes: list[Number] = []
    for dimension in op.result.type.shape:
        assert isinstance(dimension, int), "a buffer's dimensions are numbers"
        sizes.append(state.number(next(given)) if dimension == DYNAMIC_INDEX else dimension)
    return sizes


def contiguous(
    state: TtirState, type_: MemoryType, op: Operation, base: SSAValue, sizes: list[Number]
) -> PointerMemory:
    """Memory without gaps, last dimension fastest."""
    strides: list[Number] = []
    stride: Number = 1
    for size in reversed(sizes):
        strides.insert(0, stride)
        stride = state.build.product(stride, size)
    known = [size for size in sizes if isinstance(size, int)]
    is_far = len(known) < len(sizes) or prod(known) >= I32_RANGE
    element = memory_element(type_.element, op)
    return PointerMemory(base, element, tuple(strides), tuple(sizes), base.type == i32, is_far)


def _size_names(mapped: MappedOp) -> list[str]:
    return list(dict.fromkeys(op.size.data for op in mapped.body.block.ops if isinstance(op, SizeOp)))


def _attributes(divisor: int) -> DictionaryAttr:
    return DictionaryAttr({"tt.divisibility": IntegerAttr(divisor, i32)} if divisor > 1 else {})
