"""Run a kernel in NumPy and report errors that a device would not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, f64, i1
from xdsl.interpreter import PythonValues
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter

from ..analysis.accesses import EFFECTS
from ..analysis.launch_axes import axes_between_waits
from ..dialect import KernelOp, MappedOp, SizeOp, TensorArgumentType, TileOp
from ..errors import ArgumentError, IRError
from ..facts import UNKNOWN, Facts
from .access import ACCESS_HANDLERS
from .compute import COMPUTE_HANDLERS
from .debug import run_traced
from .elementwise import ARITH_HANDLERS, MATH_HANDLERS
from .memory import AccessTrace, ElementMemory
from .numbers import dtype_of, storage_of
from .state import Handlers, InterpreterState, TileInterpreter
from .structure import STRUCTURE_HANDLERS

Argument = np.ndarray[Any, Any] | int | float | bool | np.generic
Function = KernelOp | MappedOp

_HANDLERS: Handlers = {
    **ARITH_HANDLERS,
    **MATH_HANDLERS,
    **ACCESS_HANDLERS,
    **COMPUTE_HANDLERS,
    **STRUCTURE_HANDLERS,
}


def interpret(
    module: ModuleOp,
    arguments: Mapping[str, Argument],
    *,
    on_print: Callable[[str], object] = print,
    order: int | None = None,
    trace: bool = False,
    check_races: bool = False,
) -> None:
    """Run the module's one kernel, as written, after any pass, or mapped; it writes into the arrays in place.

    `arguments`: by the parameters' names, arrays of any strides (of bf16: the bits, as uint16; of integers with a sign
    or without) and numbers.
    `on_print` takes each line that `vk.print` shows. `order` seeds a shuffle of every launch's programs.
    `trace` runs the kernel as Python code with its author's file and lines, so that Python's debugger stops
    at them and shows tiles by their names. `check_races` finds programs of one launch that touch the same
    element, one of them writing, unless all write the same bits or all update it atomically.

    Raises `ArgumentError` for arguments that do not fit the parameters; `CheckError`, at the author's line,
    for an index out of range, memory read before it is written, a failed assertion, a race.
    """
    function = _function_of(module)
    types = dict(zip((p.data for p in function.parameters), function.body.block.arg_types, strict=True))
    _check_names(types, arguments)
    sizes = _sizes_of(types, arguments)
    state = InterpreterState(sizes, on_print, order, check_races and isinstance(function, MappedOp))
    values = tuple(_value(name, type_, arguments[name], state) for name, type_ in types.items())
    _check_facts(Facts.from_attribute(function.facts), sizes, arguments)
    interpreter = TileInterpreter(module, state, _HANDLERS)
    with np.errstate(all="ignore"):
        if empty := _empty_axes(interpreter, function, values):
            busy = _without_idle_parts(function, empty)
            if busy is None:
                return
            function = busy
        if trace:
            run_traced(interpreter, function, values)
        else:
            interpreter.run_ssacfg_region(function.body, values, function.sym_name.data)


def _function_of(module: ModuleOp) -> Function:
    functions = [op for op in module.body.block.ops if isinstance(op, Function)]
    if len(functions) != 1:
        raise IRError(f"the module has {len(functions)} kernels, expected one")
    return functions[0]


def _empty_axes(interpreter: TileInterpreter, function: Function, values: PythonValues) -> frozenset[str]:
    """The tile axes of a kernel as written that have no positions."""
    interpreter.push_scope("extents")
    interpreter.set_values(zip(function.body.block.args, values, strict=True))
    known = set(function.body.block.args)
    empty: set[str] = set()
    for op in function.body.block.ops:
        if known.issuperset(op.operands):
            if isinstance(op, TileOp):
                if interpreter.get_values(op.operands)[0] <= 0:
                    empty.add(op.axis.data)
            elif isinstance(op, SizeOp) or op.dialect_name() == "arith":
                results = interpreter.run_op(op, interpreter.get_values(op.operands))
                interpreter.set_values(zip(op.results, results, strict=True))
                known.update(op.results)
    interpreter.pop_scope()
    return frozenset(empty)


def _without_idle_parts(function: Function, empty: frozenset[str]) -> Function | None:
    """A copy that lacks what programs along empty axes would write, print or assert: there are none. None if it lacks
    all.

    A kernel has programs along all of its tile axes; one whose programs wait for one another, between two such places
    along those named there.
    """
    if not isinstance(function, KernelOp):
        return None
    copy = function.clone()
    axes_of_programs = axes_between_waits(copy)
    effects = [op for op in copy.walk() if isinstance(op, EFFECTS)]
    idle = [op for op in effects if not empty.isdisjoint(axes_of_programs(op))]
    if len(idle) == len(effects):
        return None
    for op in idle:
        if not op.results:  # atomics with results have an update for each position of all these axes
            Rewriter.erase_op(op)
    return copy


def _check_names(types: Mapping[str, Attribute], arguments: Mapping[str, Argument]) -> None:
    if missing := [name for name in types if name not in arguments]:
        raise ArgumentError(f"no argument for parameter {', '.join(missing)}")
    if unknown := [name for name in arguments if name not in types]:
        raise ArgumentError(f"there is no parameter {', '.join(unknown)}; parameters are {', '.join(types)}")


def _sizes_of(types: Mapping[str, Attribute], arguments: Mapping[str, Argument]) -> dict[str, int]:
    """The sizes that the tensors' declarations name, from the arrays; raises `ArgumentError` where they disagree."""
    sizes: dict[str, int] = {}
    owner: dict[str, str] = {}
    for name, type_ in types.items():
        if not isinstance(type_, TensorArgumentType):
            continue
        array = arguments[name]
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"argument `{name}` is a {type(array).__name__}, expected an array")
        if array.ndim != len(type_.shape):
            raise ArgumentError(f"argument `{name}` has {array.ndim} dimensions, expected {len(type_.shape)}")
        for dimension, (declared, size) in enumerate(zip(type_.shape, array.shape, strict=True)):
            expected = declared if isinstance(declared, int) else sizes.setdefault(declared, size)
            if size != expected:
                because = "" if isinstance(declared, int) else f" ({declared} of `{owner[declared]}`)"
                raise ArgumentError(
                    f"dimension {dimension} of argument `{name}` has size {size}, expected {expected}{because}"
                )
            if isinstance(declared, str):
                owner.setdefault(declared, name)
    return sizes


def _value(name: str, type_: Attribute, argument: Argument, state: InterpreterState) -> Any:
    """A parameter's value: memory for a tensor, a number of the parameter's dtype for a scalar."""
    if isinstance(type_, TensorArgumentType):
        array = np.atleast_1d(np.asarray(argument))
        if isinstance(type_.element, IntegerType) and array.dtype.kind == "u":
            array = array.view(f"i{array.itemsize}")
        if array.dtype != storage_of(type_.element):
            raise ArgumentError(f"argument `{name}` has dtype {array.dtype}, expected {storage_of(type_.element)}")
        memory = ElementMemory(name, type_.element, array, trace=_trace_of(array, state))
        state.shared.append(memory)
        return memory
    if isinstance(argument, np.ndarray) and argument.ndim > 0:
        raise ArgumentError(f"argument `{name}` is an array, expected a number")
    kind = np.asarray(argument).dtype.kind
    expected = "b" if type_ == i1 else "biuf" if type_ == f64 else "biu"
    if kind not in expected:
        raise ArgumentError(f"argument `{name}` is a {type(argument).__name__}, expected a {type_}")
    return dtype_of(type_).type(argument)


def _trace_of(array: np.ndarray[Any, Any], state: InterpreterState) -> AccessTrace | None:
    """A tensor's trace; an array that is passed twice has one trace."""
    if not state.check_races:
        return None
    for memory in state.shared:
        other = memory.array.__array_interface__
        if memory.trace is not None and all(
            other[key] == array.__array_interface__[key] for key in ("data", "shape", "strides")
        ):
            return memory.trace
    return AccessTrace(array.shape)


def _check_facts(facts: Facts, sizes: Mapping[str, int], arguments: Mapping[str, Argument]) -> None:
    """Raise `ArgumentError` where the facts that the kernel was mapped for do not hold."""
    for name, size in facts.sizes.items():
        if name in sizes and sizes[name] != size:
            raise ArgumentError(f"size {name} is {sizes[name]}, but the kernel was mapped for {size}")
    for name, number in facts.multiples.items():
        if name in sizes and sizes[name] % number:
            raise ArgumentError(f"size {name} is {sizes[name]}, but the kernel was mapped for multiples of {number}")
    for name, most in [*facts.bounds.items(), *facts.capacities.items()]:
        if name in sizes and sizes[name] > most:
            raise ArgumentError(f"size {name} is {sizes[name]}, but the kernel was mapped for {most} at most")
    for name, least in facts.least.items():
        if name in sizes and sizes[name] < least:
            raise ArgumentError(f"size {name} is {sizes[name]}, but the kernel was mapped for {least} at least")
    for name, strides in facts.strides.items():
        array = np.asarray(arguments[name])
        for dimension, stride in enumerate(strides):
            actual = array.strides[dimension] // array.itemsize
            if stride not in (UNKNOWN, actual) and array.shape[dimension] > 1:
                raise ArgumentError(
                    f"dimension {dimension} of `{name}` has stride {actual}, but the kernel was mapped for {stride}"
                )
