"""The parameters of a launch's function, and the facts that are known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import (
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
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue

from vkernels.ir.analysis.half_sums import sizes_of_half_sums
from vkernels.ir.dialect import BufferOp, MappedOp, ScratchOp, TensorArgumentType, tt
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.launch_arguments import LaunchParameter, ParameterKind

from ..common import buffer_sizes, contiguous_strides, size_names, unsupported
from .builder import Number
from .state import I32_RANGE, PointerMemory, TtirState
from .tiles import element_bytes, memory_element

ALIGNMENT = 16
"""Bytes: what the address of aligned memory and an aligned tensor's strides are multiples of."""

_TYPES: dict[str, Attribute] = {"i32": i32, "i64": i64, "f64": f64, "i1": i1}


def sizes_read(mapped: MappedOp) -> tuple[str, ...]:
    """The sizes that a mapped kernel's launches may read, in order."""
    return tuple(dict.fromkeys((*size_names(mapped), *sizes_of_half_sums(mapped))))


class FunctionSignature:
    """Every parameter that a function of a mapped kernel may have; `used` drops the unused ones."""

    def __init__(self, mapped: MappedOp, entry: Block):
        self.mapped, self.entry = mapped, entry
        self.facts = Facts.from_attribute(mapped.facts)
        self.declared: dict[BlockArgument, tuple[LaunchParameter, int]] = {}
        """Each argument's parameter, and a number that is known to divide it (1: nothing known)."""
        self.sizes: dict[str, Number] = {}

    def declare(self, state: TtirState) -> None:
        """Declare all and make tensors, scalars and sizes known to the function."""
        arguments = self.mapped.body.block.args
        for argument, name in zip(arguments, (p.data for p in self.mapped.parameters), strict=True):
            if isinstance(argument.type, TensorArgumentType):
                state.values[argument] = self._tensor(argument.type, name)
            else:
                state.define(argument, self._scalar(argument, name))
        for name in sizes_read(self.mapped):
            parameter = LaunchParameter(ParameterKind.SIZE, name, type="i64")
            self.sizes[name] = self._add(parameter, i64, self.facts.multiples.get(name, 1), name)
        self.sizes |= self.facts.sizes
        for argument in arguments:
            if isinstance(argument.type, TensorArgumentType):
                sizes = tuple(self.sizes.get(d) if isinstance(d, str) else d for d in argument.type.shape)
                state.values[argument] = replace(state.memory(argument), sizes=sizes)

    def _add(self, parameter: LaunchParameter, type_: Attribute, divisor: int = 1, hint: str = "") -> BlockArgument:
        argument = self.entry.insert_arg(type_, len(self.entry.args))
        argument.name_hint = hint if hint.isidentifier() else None
        self.declared[argument] = parameter, divisor
        return argument

    def _tensor(self, type_: TensorArgumentType, name: str) -> PointerMemory:
        """A tensor's memory; its sizes, which are parameters declared later, are still missing."""
        divisor = ALIGNMENT if name in self.facts.aligned else 1
        element = memory_element(type_.element, self.mapped)
        base = self._add(LaunchParameter(ParameterKind.POINTER, name), tt.PointerType(element), divisor, name)
        known = self.facts.strides.get(name, (UNKNOWN,) * len(type_.shape))
        spelled = "i64" if name in self.facts.large else "i32"
        strides: list[Number] = []
        for number, stride in enumerate(known):
            if stride != UNKNOWN:
                strides.append(stride)
                continue
            parameter = LaunchParameter(ParameterKind.STRIDE, name, number, spelled)
            apart = max(1, divisor // element_bytes(element))
            strides.append(self._add(parameter, _TYPES[spelled], apart, f"{name}_stride_{number}"))
        is_far, is_aligned = name in self.facts.large, name in self.facts.aligned
        return PointerMemory(base, element, tuple(strides), (), is_far=is_far, is_aligned=is_aligned)

    def _scalar(self, argument: BlockArgument, name: str) -> SSAValue:
        if not isinstance(argument.type, Float64Type) and argument.type not in (IntegerType(64), IntegerType(1)):
            raise unsupported(self.mapped, f"a parameter of type {argument.type}")
        return self._add(LaunchParameter(ParameterKind.SCALAR, name, type=str(argument.type)), argument.type, hint=name)

    def buffer(self, state: TtirState, op: BufferOp, number: int) -> None:
        """A top-level buffer: contiguous, its strides products of its sizes."""
        element = memory_element(op.result.type.element, op)
        parameter = LaunchParameter(ParameterKind.BUFFER, number=number)
        base = self._add(parameter, tt.PointerType(element), ALIGNMENT, op.label.data)
        state.values[op.result] = contiguous(state, op, base, buffer_sizes(op, state.number))

    def swap(self) -> SSAValue:
        """The start of all resident programs' swap space."""
        return self._add(LaunchParameter(ParameterKind.SWAP), tt.PointerType(i8), ALIGNMENT, "swap")

    def programs(self) -> SSAValue:
        """The end of the programs that a launch runs: their number, if it runs all."""
        return self._add(LaunchParameter(ParameterKind.PROGRAMS, type="i32"), i32, hint="programs")

    def first_program(self) -> SSAValue:
        """The first of the programs that a launch runs."""
        return self._add(LaunchParameter(ParameterKind.FIRST_PROGRAM, type="i32"), i32, hint="first")

    def used(self) -> tuple[tuple[LaunchParameter, ...], list[DictionaryAttr]]:
        """The parameters that have uses, and the attributes of their arguments; the others' arguments are erased."""
        kept = []
        for argument, declared in self.declared.items():
            if argument.uses.get_length():
                kept.append(declared)
            else:
                self.entry.erase_arg(argument)
        divisors = [{"tt.divisibility": IntegerAttr(divisor, i32)} if divisor > 1 else {} for _, divisor in kept]
        return tuple(parameter for parameter, _ in kept), list(map(DictionaryAttr, divisors))


def contiguous(state: TtirState, op: BufferOp | ScratchOp, base: SSAValue, sizes: Sequence[Number]) -> PointerMemory:
    """A buffer's or scratchpad's memory, without gaps, last dimension fastest."""
    strides = contiguous_strides(sizes, state.build.product)
    known = [size for size in sizes if isinstance(size, int)]
    is_far = len(known) < len(sizes) or prod(known) >= I32_RANGE
    element = memory_element(op.result.type.element, op)
    return PointerMemory(base, element, tuple(strides), tuple(sizes), base.type == i32, is_far)
