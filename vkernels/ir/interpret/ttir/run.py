"""Run TTIR in NumPy, one launch or a whole kernel, and report what would go wrong on a GPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute

from ...dialect import tt
from ...errors import ArgumentError, IRError
from ...launch_arguments import LaunchParameter, ParameterKind
from ...lowering.ttir.lowered import LoweredTtir
from ...lowering.ttir.state import SLOT_BYTES
from ..elementwise import ARITH_HANDLERS, MATH_HANDLERS
from ..numbers import Array, dtype_of
from ..state import Handlers, InterpretedProgram, InterpreterState
from ..structure import STRUCTURE_HANDLERS
from .access import TT_ACCESS_HANDLERS, TtirInterpreter
from .compute import TT_COMPUTE_HANDLERS
from .descriptors import TT_DESCRIPTOR_HANDLERS, DescribedTensor
from .plain import TT_PLAIN_HANDLERS
from .regions import AddressSpace, Region, RuntimeMemory, TensorRegion

Value = Array | np.generic | int | float | bool | TensorRegion | RuntimeMemory | DescribedTensor
"""An argument: an array, with or without a name, or runtime's memory for a pointer; a number for a scalar; a tensor for
a descriptor."""

_HANDLERS: Handlers = {
    **ARITH_HANDLERS,
    **MATH_HANDLERS,
    **STRUCTURE_HANDLERS,
    **TT_ACCESS_HANDLERS,
    **TT_COMPUTE_HANDLERS,
    **TT_DESCRIPTOR_HANDLERS,
    **TT_PLAIN_HANDLERS,
}


def run_ttir(
    module: ModuleOp,
    grid: int | tuple[int, ...],
    arguments: Sequence[Value],
    scratch_bytes: int = 0,
    order: int | None = None,
    *,
    slot_bytes: int = 0,
    between_programs: bool = True,
    same_lane_is_ordered: bool = False,
    names: Sequence[str] = (),
) -> None:
    """Run the module's one `tt.func` for programs 0 up to `grid`, one after another; arrays are written in place.

    `grid`: programs, or up to three numbers of them, the first dimension of which is counted first.
    `arguments`: in the parameters' order. A pointer's array may be any view (bf16 as the bits, uint16): the pointer
    is to its first element, and everything that is not an element of it is out of bounds. `scratch_bytes`: a program's
    scratchpad; its last `slot_bytes` hold inactive elements, so accesses there are not checked and loads give poison.
    `order` seeds a shuffle of the programs. `between_programs`: whether to look for races between programs.
    `same_lane_is_ordered`: accesses by one position of tensors of one shape are taken to be one thread's, in order.
    `names`: of the arguments, for messages.

    Raises `CheckError`, with the operation's source location, program and element, for an access out of bounds or
    misaligned; memory read before it is written; two accesses to a byte without a barrier between them, one of them
    a write, by different operations of one program; two values stored at once at one address; accesses to a byte by
    two programs, one of them a write, unless both are atomic. A masked load without a value for inactive elements
    gives poison there. An i32 offset that has wrapped lies out of bounds, unless an argument has 2³² elements.
    Raises `ArgumentError` for arguments that do not fit, `IRError` for an operation that is not known.
    """
    function = _function_of(module)
    types = tuple(function.body.blocks[0].arg_types)
    if len(types) != len(arguments):
        raise ArgumentError(f"{function.sym_name.data} takes {len(types)} arguments, not {len(arguments)}")
    state = InterpreterState({}, print, order, False)
    memories = [_memory(n, type_, value) for n, (type_, value) in enumerate(zip(types, arguments, strict=True))]
    pointed = [memory for memory in memories if memory is not None]
    space = AddressSpace(pointed)
    pointers = iter(range(len(pointed)))
    values = tuple(
        _scalar(n, type_, value) if memory is None else _passed(type_, value, space.pointer(next(pointers)))
        for n, (type_, value, memory) in enumerate(zip(types, arguments, memories, strict=True))
    )
    _check_divisibility(function, values, names)
    sizes = (grid,) if isinstance(grid, int) else grid
    interpreter = TtirInterpreter(module, state, _HANDLERS, space, sizes, between_programs, same_lane_is_ordered)
    programs = np.arange(prod(sizes))
    if order is not None:
        np.random.default_rng(order).shuffle(programs)
    with np.errstate(all="ignore"):
        for number in programs.tolist():
            coordinates = tuple(int(each) for each in np.unravel_index(number, sizes[::-1]))[::-1]
            state.program = InterpretedProgram(function.sym_name.data, number, coordinates)
            interpreter.clock.next_program()
            interpreter.scratchpad = Region.scratchpad(scratch_bytes, slot_bytes) if scratch_bytes else None
            interpreter.run_ssacfg_region(function.body, values, function.sym_name.data)


def _function_of(module: ModuleOp) -> tt.FuncOp:
    functions = [op for op in module.body.block.ops if isinstance(op, tt.FuncOp)]
    if len(functions) != 1:
        raise IRError(f"the module has {len(functions)} functions, expected one")
    return functions[0]


def _passed(type_: Attribute, value: Value, pointer: np.int64) -> Any:
    """What a kernel gets for memory: the pointer, or a descriptor."""
    if isinstance(value, DescribedTensor) and isinstance(type_, tt.TensorDescriptorType):
        return value.at(pointer, type_.block)
    return pointer


def _memory(number: int, type_: Attribute, value: Value) -> TensorRegion | RuntimeMemory | None:
    if isinstance(type_, tt.TensorDescriptorType):
        if isinstance(value, DescribedTensor):
            return value.region
        raise ArgumentError(f"argument {number} is a {type(value).__name__}, expected a tensor for {type_}")
    if not isinstance(type_, tt.PointerType):
        return None
    if isinstance(value, TensorRegion | RuntimeMemory):
        return value
    if isinstance(value, np.ndarray):
        return TensorRegion(value, f"argument {number}")
    raise ArgumentError(f"argument {number} is a {type(value).__name__}, expected an array or memory for {type_}")


def _scalar(number: int, type_: Attribute, value: Value) -> Any:
    if isinstance(value, TensorRegion | RuntimeMemory | DescribedTensor) or np.ndim(value):
        raise ArgumentError(f"argument {number} is memory, expected a number for {type_}")
    dtype = dtype_of(type_)
    if dtype.kind == "i" and not np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max:
        raise ArgumentError(f"argument {number} is {value}, which {type_} cannot hold")
    return dtype.type(value)


def _check_divisibility(function: tt.FuncOp, values: Sequence[Any], names: Sequence[str]) -> None:
    """Raise `ArgumentError` for an argument that its declared divisor does not divide."""
    if not isinstance(function.arg_attrs, ArrayAttr):
        return
    for number, (attributes, value) in enumerate(zip(function.arg_attrs.data, values, strict=True)):
        if isinstance(attributes, DictionaryAttr) and "tt.divisibility" in attributes.data:
            divisor = attributes.data["tt.divisibility"]
            if isinstance(divisor, IntegerAttr) and int(value) % divisor.value.data:
                is_pointer = isinstance(function.body.blocks[0].arg_types[number], tt.PointerType)
                what = "address" if is_pointer else f"value {value}"
                name = f"argument `{names[number]}`" if names else f"argument {number}"
                raise ArgumentError(f"the {what} of {name} is no multiple of {divisor.value.data}, as is promised")


Argument = np.ndarray[Any, Any] | np.generic | int | float | bool


def interpret_ttir(
    lowered: LoweredTtir,
    arguments: Mapping[str, Argument],
    sizes: Mapping[str, int],
    *,
    resident: int = 3,
    order: int | None = None,
    write_only: Collection[str] = (),
) -> None:
    """Run a lowered kernel; it writes into the arrays in place.

    `arguments`: by the parameters' names, arrays of any strides (of bf16: the bits, as uint16) and numbers. `sizes`: of
    the call, by name. `resident`: the most programs of a persistent launch, whose swap space is shared out among them.
    `order` seeds a shuffle of every launch's programs. `write_only`: names of tensors that may not be read before they
    are written. Raises as `run_ttir` does, and `ArgumentError` for an argument or a size that is missing.
    """
    prepared = lowered.prepare(sizes)
    buffers = [RuntimeMemory(f"buffer {number}", size) for number, size in enumerate(prepared.buffer_bytes)]
    for number, (launch, programs) in enumerate(zip(lowered.launches, prepared.programs, strict=True)):
        grid = min(programs, resident) if launch.is_persistent else programs
        swap = RuntimeMemory("swap space", (launch.swap_bytes + prepared.more_swap(number)) * grid)

        given: dict[ParameterKind, Value] = {
            ParameterKind.SWAP: swap,
            ParameterKind.FIRST_PROGRAM: 0,
            ParameterKind.PROGRAMS: programs,
        }
        values: list[Value] = []
        for parameter in launch.parameters:
            if parameter.kind == ParameterKind.BUFFER:
                values.append(buffers[parameter.number])
            elif parameter.kind == ParameterKind.SIZE:
                values.append(sizes[parameter.name])
            elif parameter.kind in given:
                values.append(given[parameter.kind])
            else:
                values.append(_of_argument(parameter, arguments, write_only))
        slot_bytes = SLOT_BYTES if launch.scratch_bytes else 0
        run_ttir(launch.module, grid, values, launch.scratch_bytes, order, slot_bytes=slot_bytes)


def _of_argument(parameter: LaunchParameter, arguments: Mapping[str, Argument], write_only: Collection[str]) -> Value:
    """A tensor's memory or one of its strides, or a scalar."""
    if parameter.name not in arguments:
        raise ArgumentError(f"no argument for parameter {parameter.name}")
    argument = arguments[parameter.name]
    if parameter.kind == ParameterKind.SCALAR:
        return argument
    if not isinstance(argument, np.ndarray):
        raise ArgumentError(f"argument `{parameter.name}` is a {type(argument).__name__}, expected an array")
    if parameter.kind != ParameterKind.STRIDE:
        return TensorRegion(argument, parameter.name, parameter.name in write_only)
    # 0 where the stride has no effect: along a dimension of one element, and in an empty array.
    has_effect = argument.size and argument.shape[parameter.number] > 1
    return argument.strides[parameter.number] // argument.itemsize if has_effect else 0
